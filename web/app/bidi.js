// Characters that turn the direction of what follows them. Text in Arabic or Hebrew needs none of the overrides, so they
// are shown instead of obeyed: with U+202E a model could make a text or a name read backwards. In code none of them has a
// use that a reader should not see.

const OVERRIDES = /[\u202d\u202e]/g;
const CONTROLS = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;
const name = c => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

export const shownText = text => text.replace(OVERRIDES, name);
export const shownCode = text => text.replace(CONTROLS, name);
