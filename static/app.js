// What a person does on a page beside following links: theme, keyboard, dialogs; and what a refresh must not touch.
(() => {
  const root = document.documentElement;

  // Morphing keeps focus and typed text by itself. These four it would undo.
  const isHeld = (panel) => {
    if (!panel) return false;
    const selection = getSelection();
    const reads = selection && !selection.isCollapsed && panel.contains(selection.anchorNode);
    return reads || panel.querySelector("input[type=checkbox][data-row]:checked") !== null;
  };
  htmx.registerExtension("sluice", {
    htmx_before_morph_attr: (element, detail) =>
      !(detail.attrName === "open" && (element.tagName === "DETAILS" || element.tagName === "DIALOG")),
    htmx_before_morph_node: (element, detail) => {
      if (element.tagName !== "TIME") return true; // its words are the browser's
      return element.dateTime !== detail.newNode.getAttribute("datetime") || element.dataset.form !== detail.newNode.dataset.form;
    },
    // A panel that somebody reads from stays; the tag of before asks for it again with the next poll.
    htmx_before_swap: (element, detail) => {
      if (element?.id !== "poll") return true;
      const kept = detail.tasks.filter((task) => !isHeld(task.target));
      if (kept.length < detail.tasks.length) {
        detail.tasks.splice(0, detail.tasks.length, ...kept);
        element._htmx.ptag = detail.ctx.request.headers["HX-PTag"];
      }
      return true;
    },
  });

  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* holds for this page */ } };
  const switchTheme = () => {
    const next = root.dataset.bsTheme === "dark" ? "light" : "dark";
    root.dataset.bsTheme = next;
    keep("theme", next);
    document.dispatchEvent(new Event("sluice:theme"));
  };
  const switchZone = () => {
    keep("zone", sluice.setting("zone") === "utc" ? "" : "utc");
    sluice.word();
    document.dispatchEvent(new Event("sluice:theme")); // charts have times too
  };

  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest?.(selector);
    if (at("[data-theme-toggle]")) switchTheme();
    if (at("[data-zone-toggle]")) switchZone();
    const opener = at("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
    const closer = at("[data-close]");
    if (closer) closer.closest("dialog, .notice")?.[closer.closest("dialog") ? "close" : "remove"]();
  });

  // Parts of a form that belong to one choice of a select. Without scripts all of them are there.
  const showParts = (select) => document.querySelectorAll(`[data-when="${select.id}"]`).forEach((part) => {
    part.classList.toggle("applies", part.dataset.is === select.value);
  });
  document.querySelectorAll("select").forEach(showParts);
  document.addEventListener("change", (event) => { if (event.target.matches("select")) showParts(event.target); });

  // Keys. None in fields, none with a modifier.
  const PLACES = { d: "/", l: "/lists", j: "/jobs", f: "/failures", k: "/keys", w: "/workers", a: "/alerts", s: "/settings" };
  let goes = 0;
  const row = (step) => {
    const rows = [...document.querySelectorAll("[data-rows] tbody tr")].filter((one) => one.querySelector("a"));
    if (!rows.length) return;
    const here = rows.findIndex((one) => one.contains(document.activeElement));
    rows[Math.min(Math.max(here + step, 0), rows.length - 1)].querySelector("a").focus();
  };
  const press = (selector) => document.querySelector(selector)?.click();
  const KEYS = {
    "/": () => document.querySelector("input[type=search]")?.focus(),
    "?": () => document.getElementById("keys-help")?.showModal(),
    t: switchTheme,
    p: () => document.dispatchEvent(new Event("sluice:pause")),
    j: () => row(1),
    k: () => row(-1),
    x: () => document.activeElement?.closest("tr")?.querySelector("[data-row]")?.click(),
    r: () => press("[data-key=retry]"),
    e: () => press("[data-key=export]"),
    "[": () => press("[data-key=previous]"),
    "]": () => press("[data-key=next]"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, textarea, select, [contenteditable]")) return;
    if (sluice.setting("keys") === "off" || document.querySelector("dialog[open]")) return;
    if (Date.now() - goes < 1500) {
      goes = 0;
      if (PLACES[event.key]) { location.assign(PLACES[event.key]); return; }
    }
    if (event.key === "g") { goes = Date.now(); return; }
    if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
  });
})();
