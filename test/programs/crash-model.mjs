// The data of the crash programs, and the expectation afterwards. Entries are numbered 1, 2, 3 … in each timeline, so the state
// is a function of the last number alone: `expected` is the oracle, outside of any store.

const pad = 'x'.repeat(120)

export const entry = (n) => ({ type: 'n', n, pad: pad.slice(0, (n * 37) % 120) })

/** The definitions, made with the library of the caller: a child has the built one, a test the sources. */
export function define({ timeline, keyed }, { every = 20 } = {}) {
  const plain = { initial: () => ({ last: 0, gaps: 0, mix: 1 }), apply: (state, { n }) => next(state, n) }
  return {
    /** All history, no checkpoint. */
    plain: timeline('plain', plain),
    /** Checkpoints, and no more history than they need. */
    ledger: timeline('ledger', {
      ...plain,
      checkpoint: { every },
      retain: { checkpoints: 2, history: 'needed' },
    }),
    /** Checkpoints of keyed pages beside all history. */
    shelf: timeline('shelf', {
      initial: () => ({ last: 0, gaps: 0, mix: 1, items: keyed() }),
      apply(state, { n }) {
        Object.assign(state, next(state, n))
        place(state.items, n)
      },
      checkpoint: { every: Math.max(2, every - 2) },
      retain: { checkpoints: 3 },
    }),
  }
}

function next({ last, gaps, mix }, n) {
  return { last: n, gaps: gaps + (n === last + 1 ? 0 : 1), mix: Math.imul(mix ^ n, 0x01000193) >>> 0 }
}

/** Long and without a pattern, so that checkpoints need chunks. */
function place(items, n) {
  items.set(`k${(n * 7) % 97}`, textOf(n))
  if (n % 5 === 0) items.delete(`k${(n * 3) % 97}`)
}

/** Kept: a test that looks at thousands of states folds the same entries for each. */
const texts = new Map()

function textOf(n) {
  let text = texts.get(n)
  if (text !== undefined) return text
  const random = randomFrom(n)
  text = Array.from({ length: 90 }, () => random.number().toString(36).slice(2, 10)).join('')
  if (texts.size < 1000) texts.set(n, text)
  return text
}

/** A state as plain data, to compare. */
export function show({ last, gaps, mix, items }) {
  const rest = { last, gaps, mix }
  return items ? { ...rest, items: [...items.entries()].sort(([a], [b]) => (a < b ? -1 : 1)) } : rest
}

/** The state of a timeline of this kind whose last number is `last`. */
export function expected(kind, last) {
  let state = { last: 0, gaps: 0, mix: 1 }
  const items = new Map()
  for (let n = 1; n <= last; n++) {
    state = next(state, n)
    place(items, n)
  }
  return show(kind === 'shelf' ? { ...state, items } : state)
}

/** A repeatable source of chance. */
export function randomFrom(seed) {
  let s = seed | 0
  const number = () => {
    s = (s + 0x6d2b79f5) | 0
    let t = Math.imul(s ^ (s >>> 15), 1 | s)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return { number, below: (limit) => Math.floor(number() * limit), chance: (share) => number() < share }
}
