// Every option of open() and of the engine's calls, with a value of each shape: it is accepted if its type has that shape, and
// refused with a code otherwise. The names come from the calls themselves, so that a new option needs a line here.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { isReprise, open, type Reprise, timeline } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

/** The text is neither a path nor a duration. */
const values = { number: 5, text: 'xx:x', empty: '', null: null, object: {}, list: [], true: true, function: () => 1 }
type Shape = keyof typeof values

/** The shapes that an option takes. Not listed: one of them is refused for its content. */
const shapes: Readonly<Record<string, readonly Shape[]>> = {
  ...each('dryRun forks savepoints erase unfinished chunksOnly takeover isPassive isWhole repair resume', 'true'),
  ...each('shared evenInvalid mustExist guardFolds redundancy evenUnfinished onlyNew stateOnly', 'true'),
  ...each('prefix status queue owner parent after timeline kind label', 'text', 'empty'),
  ...each('worker namespace blobs by', 'text'),
  ...each('graceMs restMs pollMs limit checkpoints lease patience wait timeout', 'number'),
  ...each('timelines unset classes', 'list'),
  ...each('onProgress', 'function'),
  ...each('attributes set limits tiers housekeeping', 'object'),
  // A number is a time; a number of milliseconds below a second is too little for `grace`.
  ...each('since', 'number'),
  ...each('key id', 'text'),
  // None of these values is a key ring, an address, a folder, an AbortSignal, a point of history or a file to read only.
  ...each('keys grace shards mirror readOnly log signal to undo consumed from input'),
}

function each(names: string, ...taken: readonly Shape[]): Record<string, readonly Shape[]> {
  return Object.fromEntries(names.split(' ').map((name) => [name, taken]))
}

const counter = timeline('counter', { initial: () => 0, apply: (n: number) => n + 1 })
const folder = temporaryFolder('option-values')
let rp: Reprise
let made = 0
beforeAll(async () => {
  rp = await open(`sqlite:${join(folder, 'calls.db')}`, { housekeeping: false })
  await using first = await rp.open(counter, 'a')
  await first.append({ type: 'added' } as never)
})
afterAll(() => rp.close())

/** A new name for each call, so that none meets what another one left. */
function fresh(): string {
  made += 1
  return `n${made}`
}

const calls: Readonly<Record<string, (options: never) => Promise<unknown>>> = {
  open: async (options) => await (await open(`sqlite:${join(folder, `${fresh()}.db`)}`, options)).close(),
  'open of a timeline': async (options) => await (await rp.open(counter, fresh(), options)).close(),
  follow: async (options) => await (await rp.follow(counter, 'a', options)).close(),
  collect: (options) => rp.collect(options),
  drill: (options) => rp.drill(options),
  verify: (options) => rp.verify(options),
  list: (options) => rp.list(options),
  log: (options) => rp.log(options),
  delete: (options) => rp.delete('counter/none', options),
  savepoint: (options) => rp.savepoint({ timeline: 'counter/a', seq: 1 }, options),
  fork: (options) => rp.fork({ timeline: 'counter/a', seq: 1 }, `counter/${fresh()}`, options),
  send: (options) => rp.send(`counter/${fresh()}`, 'kind', 1, options),
}

it.each(Object.keys(calls))('%s takes the shapes of its types, and refuses the others with a code', async (name) => {
  const call = calls[name]!
  const wrong: string[] = []
  for (const option of await optionsOf(call)) {
    const taken = shapes[option]
    if (taken === undefined) wrong.push(`${option} has no shape here`)
    for (const [shape, value] of Object.entries(values)) {
      const error = await call({ [option]: value } as never).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      if (error !== null && !isReprise(error)) wrong.push(`${option} as ${shape}: ${(error as Error).stack}`)
      if (error === null && !taken?.includes(shape as Shape)) wrong.push(`${option} as ${shape} is accepted`)
    }
  }
  expect(wrong).toEqual([])
})

/** The refusal of an unknown option names all known ones. */
async function optionsOf(call: (options: never) => Promise<unknown>): Promise<string[]> {
  const error = (await call({ zzzzzzzzzzzz: 1 } as never).catch((thrown: unknown) => thrown)) as Error
  const names = /use one of (.*) \[INVALID_ARGUMENT\]/.exec(error.message)?.[1]
  expect(names, error.message).toBeDefined()
  return names!.split(', ')
}

it('wrong values inside of options are refused too', async () => {
  const nested: readonly (() => unknown)[] = [
    () => timeline('on', { initial: () => 0, apply: (n: number) => n, checkpoint: { on: 'x' as never } }),
    () => timeline('on', { initial: () => 0, apply: (n: number) => n, checkpoint: { on: [5] as never } }),
    () => open('memory:', { tiers: { cold: { at: 5 as never, after: '1d' } } }),
    () => open('memory:', { housekeeping: { every: 'x' as never } }),
    () => open('memory:', { housekeeping: { expire: 'x' as never } }),
    () => open('memory:', { keys: { current: 5 as never, keys: {} } }),
    () => open('memory:', { limits: { listedTimelines: 'x' as never } }),
    () => open('memory:', { shards: [5 as never] }),
  ]
  for (const use of nested) {
    await expect(Promise.resolve().then(use), String(use)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  }
})

it('a path at which nothing can be is refused with a code, wherever it is given', async () => {
  const place = join(folder, 'places')
  mkdirSync(place)
  writeFileSync(join(place, 'file'), 'x')
  const none = [join(place, 'file', 'x'), join(place, 'n'.repeat(300)), '/proc/none/x']
  const at = (name: string) => `sqlite:${join(place, `${name}${fresh()}.db`)}`
  const uses: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
    store: (path) => open(`sqlite:${path}`),
    'store to read': (path) => open(`sqlite:${path}`, { readOnly: true }),
    blobs: (path) => open(at('blobs'), { blobs: `file:${path}` }),
    mirror: (path) => open(at('mirror'), { mirror: `file:${path}` }),
    tier: (path) => open(at('tier'), { tiers: { cold: { at: `file:${path}`, keep: 1 } } }),
    backup: (path) => rp.backup(path),
    restore: (path) => rp.restore(path),
    ship: (path) => rp.ship(`file:${path}`, { once: true }),
  }
  const wrong: string[] = []
  for (const [name, use] of Object.entries(uses)) {
    for (const path of none) {
      const error = await use(path).catch((thrown: unknown) => thrown)
      if (!isReprise(error)) wrong.push(`${name} at ${path.slice(-20)}: ${(error as Error).stack ?? 'accepted'}`)
    }
  }
  expect(wrong).toEqual([])
})
