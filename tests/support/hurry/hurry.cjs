// Loaded into a CLI that runs under node: what it waits before it asks again passes fifty times as fast.
// Time limits and everything else keep their time: only a wait of a second or more, set up by a function whose name
// tells of waiting, is cut.
"use strict";
const WAITING = /\b(delay|sleep|retry|backoff)\w*/i;
const NEAREST = 8; // lines of the stack, the error's own and this function's among them
const inTime = globalThis.setTimeout;
globalThis.setTimeout = Object.assign((call, ms, ...rest) => {
  const callers = ms >= 1000 ? new Error().stack.split("\n").slice(2, NEAREST).join("\n") : "";
  return inTime(call, WAITING.test(callers) ? ms / 50 : ms, ...rest);
}, inTime);
