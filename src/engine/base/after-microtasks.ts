// Callbacks that run once the microtask queue is empty, when other code has run as far as it can. All callbacks that
// wait at the same moment share one tick, because a thousand runs may receive their outcomes at once.

// Saved before the guard of workflow code replaces it: the replacement determines its caller on each call.
const nextTick = process.nextTick.bind(process)
const settled = Promise.resolve()
let waiting: (() => void)[] = []

export function whenDrained(call: () => void): void {
  waiting.push(call)
  // Not queueMicrotask: with async hooks enabled, it allocates one more object.
  if (waiting.length === 1) settled.then(scheduleTick)
}

/** A tick scheduled from a microtask runs once the microtask queue is empty. */
function scheduleTick(): void {
  nextTick(tick)
}

function tick(): void {
  const calls = waiting
  waiting = []
  for (const call of calls) {
    try {
      call()
    } catch (error) {
      // Rethrown in its own tick: the error must neither stop the other callbacks nor be lost.
      nextTick(() => {
        throw error
      })
    }
  }
}
