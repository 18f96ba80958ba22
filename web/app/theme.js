// Light, dark, or as the system has it. The colours are in style/base.css.

import { preference, setPreference } from "./preferences.js";

export const themes = ["system", "light", "dark"];
export const theme = () => (themes.includes(preference("theme", "system")) ? preference("theme", "system") : "system");

export function setTheme(name) {
  setPreference("theme", name === "system" ? null : name);
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}
