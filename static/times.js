// Words for moments. The server writes absolute times; how old they are is said here, by the server's clock.
window.sluice = (() => {
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  let ahead = 0; // of this browser's clock, in ms

  const setting = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const two = (n) => String(n).padStart(2, "0");
  const now = () => Date.now() + ahead;

  const parts = (at) => setting("zone") === "utc"
    ? { y: at.getUTCFullYear(), m: at.getUTCMonth(), d: at.getUTCDate(), h: at.getUTCHours(), i: at.getUTCMinutes(), s: at.getUTCSeconds() }
    : { y: at.getFullYear(), m: at.getMonth(), d: at.getDate(), h: at.getHours(), i: at.getMinutes(), s: at.getSeconds() };

  const zoneOf = (at) => {
    if (setting("zone") === "utc") return "UTC";
    const named = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(at);
    return named.find((part) => part.type === "timeZoneName")?.value ?? "";
  };

  // Two units at most: 9 s, 4 m 05 s, 2 h 31 m, 3 d 4 h.
  const duration = (seconds) => {
    const n = Math.max(0, Math.round(seconds));
    if (n < 60) return `${n} s`;
    if (n < 3600) return `${Math.floor(n / 60)} m ${two(n % 60)} s`;
    if (n < 86400) return `${Math.floor(n / 3600)} h ${two(Math.floor(n % 3600 / 60))} m`;
    return `${Math.floor(n / 86400)} d ${Math.floor(n % 86400 / 3600)} h`;
  };

  // Today 14:32:07, this year 30 Nov 14:32, else 30 Nov 2025. Short: 14:32, also just past midnight.
  const moment = (at, short) => {
    const t = parts(at), today = parts(new Date(now()));
    const clock = `${two(t.h)}:${two(t.i)}`;
    if (short && Math.abs(at - now()) < 43200e3) return clock;
    if (t.y === today.y && t.m === today.m && t.d === today.d) return short ? clock : `${clock}:${two(t.s)}`;
    return t.y === today.y ? `${t.d} ${MONTHS[t.m]} ${clock}` : `${t.d} ${MONTHS[t.m]} ${t.y}`;
  };

  const FORMS = {
    at: (at) => moment(at, false),
    clock: (at) => moment(at, true),
    ago: (at) => now() - at < 3600e3 ? `${duration((now() - at) / 1000)} ago` : moment(at, false),
    age: (at) => duration((now() - at) / 1000),
  };

  const exact = (at) => {
    const t = parts(at);
    return `${t.d} ${MONTHS[t.m]} ${t.y} ${two(t.h)}:${two(t.i)}:${two(t.s)} ${zoneOf(at)}`;
  };

  const word = (within = document) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime), text = (FORMS[time.dataset.form] ?? FORMS.at)(at);
      if (time.textContent !== text) time.textContent = text;
      const title = exact(at);
      if (time.title !== title) time.title = title;
    }
  };

  // The server's clock, in seconds, as it just said.
  const setClock = (seconds) => { ahead = seconds * 1000 - Date.now(); };

  document.addEventListener("DOMContentLoaded", () => word());
  document.addEventListener("htmx:after:swap", () => word());
  setInterval(() => { if (!document.hidden) word(); }, 1000);
  return { now, word, moment, duration, setClock, setting };
})();
