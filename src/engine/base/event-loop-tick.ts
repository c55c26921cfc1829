// The turn of the event loop, as a number: what happens in another turn than something else was not caused by it alone.

let turn = 0
let isCounting = false
const later = setImmediate

/** Costs one immediate per turn in which somebody asks. */
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
