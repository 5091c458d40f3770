// Before the first paint: the theme that was chosen here, else the system's; and that scripts run.
(() => {
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* storage is off: the system's theme */ }
  const dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.bsTheme = dark ? "dark" : "light";
  document.documentElement.classList.add("scripts");
})();
