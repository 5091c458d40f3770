// One poll per page: a tick every two seconds while the page is seen, and what to say when no answer comes.
(() => {
  const TICK_MS = 2000, LOST_AFTER = 3, LOST_MS = 10000, OLD_MS = 10000, LONGEST_PAUSE_MS = 8000;
  const root = document.documentElement;
  let failures = 0, lastGood = Date.now(), lastTick = 0, pause = TICK_MS, signedOut = false, paused = false;
  let moments = {}; // of each panel, in seconds of the server's clock

  const poll = () => document.getElementById("poll");
  const isPoll = (event) => event.detail?.ctx?.sourceElement?.id === "poll";
  const isLost = () => signedOut || failures >= LOST_AFTER || (failures > 0 && Date.now() - lastGood > LOST_MS);

  const readMoments = (text) => {
    for (const part of (text ?? "").split(" ")) {
      const [name, seconds] = part.split("=");
      if (name === "now") sluice.setClock(Number(seconds));
      else if (name) moments[name] = Number(seconds);
    }
  };

  const tick = () => {
    if (!poll() || signedOut) return;
    lastTick = Date.now();
    document.body.dispatchEvent(new CustomEvent("tick"));
  };

  // What stands in the place of the verdict when the page is no longer live.
  const saySo = () => {
    const box = document.getElementById("connection");
    if (!box) return;
    const lost = isLost(), old = moments.verdict ? sluice.now() - moments.verdict * 1000 : 0;
    root.classList.toggle("lost", lost);
    root.classList.toggle("stale", !lost && (failures > 0 || old > OLD_MS));
    box.hidden = !lost;
    if (lost) {
      const wait = Math.max(0, Math.ceil((lastTick + pause - Date.now()) / 1000));
      const seen = moments.verdict ? new Date(moments.verdict * 1000) : null;
      box.querySelector("b").textContent = signedOut ? "You were signed out." : "Not connected.";
      box.querySelector("[data-words]").textContent = signedOut ? "" : (seen
        ? `What you see is from ${sluice.moment(seen)}, ${sluice.duration(old / 1000)} ago. ` : "")
        + `Trying again ${wait ? `in ${wait} s` : "now"}.`;
      box.querySelector("[data-try-now]").hidden = signedOut;
      const link = box.querySelector("a");
      link.hidden = !signedOut;
      link.href = "/sign-in?next=" + encodeURIComponent(location.pathname + location.search);
    }
    holdButtons(lost);
    sayAsOf(lost);
  };

  // Nothing can be changed while nobody answers.
  const holdButtons = (lost) => {
    const changing = "form[method=post] button, form[method=post] [type=submit], [hx-post], [hx-put], [hx-delete]";
    for (const button of document.querySelectorAll(changing)) {
      if (lost && !button.disabled) { button.disabled = true; button.dataset.held = ""; }
      if (!lost && "held" in button.dataset) { button.disabled = false; delete button.dataset.held; }
    }
  };

  const sayAsOf = (lost) => {
    for (const place of document.querySelectorAll("[data-as-of]")) {
      const at = moments[place.dataset.asOf];
      if (!at) continue;
      const live = place.dataset.asOf === "verdict" ? (paused ? " · paused" : lost ? "" : " · live") : "";
      const text = `as of ${sluice.moment(new Date(at * 1000))}${live}`;
      if (!place.firstChild) {
        const dot = document.createElement("span");
        dot.className = "dot";
        place.append(dot, text);
      } else if (place.lastChild.data !== text) place.lastChild.data = text;
    }
  };

  const good = () => { failures = 0; pause = TICK_MS; lastGood = Date.now(); saySo(); };
  const bad = () => {
    failures += 1;
    if (failures > LOST_AFTER) pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS);
    saySo();
  };

  document.addEventListener("htmx:after:request", (event) => {
    if (!isPoll(event)) return;
    const { status, headers } = event.detail.ctx.response;
    if (status === 401) { signedOut = true; saySo(); return; }
    if (status >= 400) { bad(); return; }
    readMoments(headers.get("Sluice-As-Of"));
    good();
  });
  document.addEventListener("htmx:error", (event) => { if (isPoll(event)) bad(); });
  document.addEventListener("htmx:after:swap", saySo);

  // Another page was swapped in: its moments count, not those of the page before.
  const begin = () => {
    moments = {};
    readMoments(poll()?.dataset.moments);
    lastTick = Date.now();
    saySo();
  };
  document.addEventListener("DOMContentLoaded", begin);
  let known = null;
  document.addEventListener("htmx:after:swap", () => { if (poll() !== known) { known = poll(); begin(); } });

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    lastGood = Date.now(); // a hidden page asks nothing: that is no silence of the server
    tick();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-try-now]")) tick();
  });
  document.addEventListener("sluice:pause", () => { paused = !paused; saySo(); if (!paused) tick(); });

  setInterval(() => {
    if (document.hidden || paused) return;
    if (Date.now() - lastTick >= pause - 50) tick();
    saySo();
  }, 500);
})();
