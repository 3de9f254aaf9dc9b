"use strict";
(() => {
  const button = document.getElementById("theme");
  const names = ["system", "light", "dark"];
  const key = "nsysoverlap-theme";

  // A page opened from disk may have no storage; the choice then lasts as long as the page.
  const stored = () => {
    try { return localStorage.getItem(key); } catch { return null; }
  };
  const store = (name) => {
    try { localStorage.setItem(key, name); } catch { /* see above */ }
  };
  let current = names.includes(stored()) ? stored() : "system";

  const apply = () => {
    if (current === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = current;
    button.textContent = `Theme: ${current}`;
    button.setAttribute("aria-label", `Colour theme: ${current === "system" ? "as the system" : current}`);
    document.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    current = names[(names.indexOf(current) + 1) % names.length];
    store(current);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
})();
