// Sets the chosen theme before the first paint; a classic script for that reason. "auto" follows the system.
"use strict";

(() => {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("strata-theme") ?? "auto";
  } catch {
    // A browser that forbids storage: the system's theme.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
