// Calls that wait until no microtask is left: then code has run as far as it can. All that wait at the same moment share
// one tick, since a thousand runs may be told of their outcomes at once.

const settled = Promise.resolve()
let waiting: (() => void)[] = []

export function whenDrained(call: () => void): void {
  waiting.push(call)
  // Not queueMicrotask: where async hooks are on, it makes an object more.
  if (waiting.length === 1) settled.then(scheduleTick)
}

/** A tick that a microtask asks for runs when their queue is empty. */
function scheduleTick(): void {
  process.nextTick(tick)
}

function tick(): void {
  const calls = waiting
  waiting = []
  for (const call of calls) {
    try {
      call()
    } catch (error) {
      // Not the others' affair, and not to be lost.
      process.nextTick(() => {
        throw error
      })
    }
  }
}
