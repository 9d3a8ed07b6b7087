"use strict";
// Takes the token out of the address, gives it once for a cookie, and keeps it for this tab to act with.
(async () => {
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, "", "/");
  const said = document.getElementById("said");
  const answer = await fetch("/enter", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (!answer.ok) {
    said.textContent = "This address is of another start of ralphd web: open the one that it printed last.";
    return;
  }
  sessionStorage.setItem("token", token);
  location.replace("/");
})();
