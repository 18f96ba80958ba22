// Before anything is drawn: the theme that was chosen. See theme.js.
"use strict";
try {
  const theme = JSON.parse(localStorage.getItem("engine.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* the system's */ }
