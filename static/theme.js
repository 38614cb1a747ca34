// Runs before the first paint, so that a stored theme never flashes into another.
(() => {
  const root = document.documentElement;
  root.dataset.script = "";
  try {
    const choice = localStorage.getItem("theme");
    if (choice === "light" || choice === "dark") root.dataset.theme = `switchyard-${choice}`;
  } catch {
    // Storage may be forbidden; then the theme follows the system.
  }
})();
