// The current iteration of the event loop, as a number. An event in a later iteration than another was not caused by that
// one alone.

let turn = 0
let isCounting = false
const later = setImmediate

/** Schedules at most one immediate per iteration. */
export function thisTick(): number {
  if (!isCounting) {
    isCounting = true
    later(next)
  }
  return turn
}

function next(): void {
  isCounting = false
  turn += 1
}
