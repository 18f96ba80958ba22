// The window of settings: of this conversation (system prompt, sampling), and of this page (theme, key, data).

import { element, iconButton } from "./dom.js";
import { preference, serverKey, setPreference, setServerKey } from "./preferences.js";
import { setTheme, theme, themes } from "./theme.js";

// [setting, name, least, most, step, explanation]
const numbers = [
  ["temperature", "Temperature", 0, 5, 0.05, "0 always takes the most likely token; higher is more varied"],
  ["top_p", "Top-p", 0, 1, 0.01, "keeps the most likely tokens that make up this share"],
  ["top_k", "Top-k", 0, 100000, 1, "keeps this many tokens; 0: all"],
  ["min_p", "Min-p", 0, 1, 0.01, "drops tokens less likely than this share of the best"],
  ["repeat_penalty", "Repeat penalty", 0.5, 2, 0.01, "above 1: what was said lately comes less often"],
  ["max_tokens", "Longest answer", 1, 1000000, 1, "in tokens"],
  ["seed", "Seed", 0, 4294967295, 1, "the same seed gives the same answer, another answer has the next one; none: by chance"],
];

function checkbox(label, name, otherwise) {
  const input = element("input", { type: "checkbox", onchange: () => setPreference(name, input.checked) });
  input.checked = preference(name, otherwise);
  return element("label", { class: "check" }, input, label);
}

// conversation: its settings are changed when the window is closed. defaults: what the server does where nothing is set.
// actions: {changed(settings), exportAll, importFile, removeAll, keyForgotten}
export function showSettings(conversation, defaults, actions) {
  const settings = conversation.settings;
  const system = element("textarea", { rows: "4", dir: "auto", placeholder: "For example: You are a patient teacher. Answer briefly." });
  system.value = settings.system ?? "";
  const inputs = numbers.map(([name, label, min, max, step, help]) => {
    const preset = Number.isFinite(defaults[name]) && defaults[name] >= 0 ? `${Math.round(defaults[name] * 1e4) / 1e4}` : "";
    const input = element("input", { type: "number", min, max, step: "any", inputmode: step < 1 ? "decimal" : "numeric", placeholder: preset, "aria-describedby": `help-${name}` });
    input.value = settings[name] ?? "";
    return { name, input, whole: step >= 1, row: element("label", { class: "field" }, label, input, element("span", { class: "note", id: `help-${name}` }, help)) };
  });
  const forNew = element("input", { type: "checkbox" });
  const themeButtons = themes.map(name => {
    const radio = element("input", { type: "radio", name: "theme", value: name, onchange: () => setTheme(name) });
    radio.checked = theme() === name;
    return element("label", {}, radio, element("span", {}, { system: "System", light: "Light", dark: "Dark" }[name]));
  });
  const file = element("input", { type: "file", accept: "application/json,.json", class: "unseen", tabindex: "-1", "aria-hidden": "true", onchange: () => {
    dialog.close();
    actions.importFile(file.files[0]);
  } });
  const forget = element("button", { type: "button", class: "button", hidden: !serverKey(), onclick: () => {
    setServerKey("", false);
    forget.hidden = true;
    actions.keyForgotten();
  } }, "Forget the key");
  const button = (label, onclick, kind = "") => element("button", { type: "button", class: `button ${kind}`, onclick }, label);

  const read = () => {
    const found = {};
    if (system.value.trim() !== "") found.system = system.value;
    for (const { name, input, whole } of inputs)
      if (input.value !== "" && Number.isFinite(input.valueAsNumber)) found[name] = whole ? Math.round(input.valueAsNumber) : input.valueAsNumber;
    return found;
  };
  const form = element("form", { method: "dialog" },
    element("div", { class: "bar" }, element("h2", { id: "settings-title" }, "Settings"), iconButton("close", "Close", () => form.requestSubmit())),
    element("fieldset", {}, element("legend", {}, "This conversation"),
      element("label", { class: "field" }, "System prompt", system, element("span", { class: "note" }, "What the model is told before the first message")),
      element("details", { class: "more" }, element("summary", {}, "Sampling"), element("div", { class: "grid" }, ...inputs.map(({ row }) => row))),
      element("label", { class: "check" }, forNew, "Use these for new conversations too")),
    element("fieldset", {}, element("legend", {}, "This page"),
      element("div", { class: "segments", role: "radiogroup", "aria-label": "Theme" }, ...themeButtons),
      checkbox("Record each token's probability and its rivals", "tokens", false),
      element("p", { class: "note" }, "Shown by the button with three bars under an answer. Answers take more room then.")),
    element("fieldset", {}, element("legend", {}, "Data"),
      element("p", { class: "note" }, "Conversations are kept in this browser only."),
      element("div", { class: "buttons left" }, button("Export all", actions.exportAll), button("Import …", () => file.click()), file, forget,
        button("Delete all", () => (dialog.close(), actions.removeAll()), "danger"))));
  form.querySelector("details").open = inputs.some(({ input }) => input.value !== "");
  const dialog = element("dialog", { class: "settings", "aria-labelledby": "settings-title" }, form);
  form.addEventListener("input", event => event.target.type === "number" && event.target.setCustomValidity(""));
  dialog.addEventListener("close", () => {
    const found = read();
    if (forNew.checked) setPreference("settings", found);
    dialog.remove();
    actions.changed(found);
  });
  dialog.addEventListener("click", event => event.target === dialog && form.requestSubmit());
  document.body.append(dialog);
  dialog.showModal();
}
