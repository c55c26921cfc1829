// The current iteration of the event loop, as a number. Two events in different iterations are not part of one
// synchronous chain.

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
