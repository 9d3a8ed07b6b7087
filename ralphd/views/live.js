"use strict";
// Puts the regions that the server sends into their places, and sends what a button says.
(() => {
  const said = document.getElementById("said");
  const main = document.querySelector("main[data-events]");
  const LOST = "Not live: the connection is lost. Is ralphd web still running?";

  function replace(place, markup) {
    const controls = "a, button, summary, [tabindex]";
    const focused = [...place.querySelectorAll(controls)].indexOf(document.activeElement);
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    place.innerHTML = markup; // escaped by the server; the policy runs no script in it
    place.querySelectorAll("details").forEach((one, n) => (one.open = Boolean(open[n])));
    if (focused >= 0) place.querySelectorAll(controls)[focused]?.focus();
  }

  function take(event) {
    if (said.textContent === LOST) said.textContent = "";
    for (const [id, markup] of Object.entries(JSON.parse(event.data))) {
      const place = document.getElementById(id);
      if (!place) return location.reload();
      replace(place, markup);
    }
  }

  if (main) {
    const stream = new EventSource(main.dataset.events);
    stream.addEventListener("regions", take);
    stream.addEventListener("anew", () => location.reload());
    stream.addEventListener("error", () => (said.textContent = LOST));
    addEventListener("pagehide", () => stream.close());
  }

  document.addEventListener("click", async (event) => {
    const { verb, loop } = event.target.dataset ?? {};
    if (!verb || (verb === "restart" && !confirm(`End the running session of ${loop} and begin a new one?`))) return;
    const answer = await fetch("/act", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Ralphd-Token": sessionStorage.getItem("token") ?? "" },
      body: JSON.stringify({ verb, loop }),
    });
    said.textContent = await answer.text();
  });
})();
