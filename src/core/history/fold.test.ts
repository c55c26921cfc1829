import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isReprise, type RepriseError } from '../errors.ts'
import { checkUpcasters, missingPaths, type Upcasters, upcast } from './fold.ts'

const failure = (act: () => unknown): RepriseError => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

/** Upcasters that leave a trace: a type at version `version` with a link from each of `links`. */
const tracing = (version: number, links: readonly number[]): Upcasters => ({
  moved: { version, from: Object.fromEntries(links.map((at) => [at, (data: unknown) => [...(data as number[]), at]])) },
})

test('A5.4: an old entry goes through every link upwards, once and in order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.nat(11), (version, back) => {
      const from = Math.max(1, version - back)
      const links = Array.from({ length: version - 1 }, (_, index) => index + 1)
      const entry = { seq: 7, type: 'moved', version: from, data: [] as unknown }
      const up = upcast(entry, tracing(version, links))
      expect(up).toEqual({ seq: 7, type: 'moved', version, data: links.filter((at) => at >= from) })
    }),
  )
})

test('A5.4: missingPaths names exactly the stored kinds that upcast refuses', () => {
  const kind = fc.record({
    type: fc.constantFrom('moved', 'other', 'constructor'),
    version: fc.integer({ min: 1, max: 8 }),
  })
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.uniqueArray(fc.integer({ min: 1, max: 5 })),
      fc.array(kind),
      (version, some, kinds) => {
        const upcasters = tracing(
          version,
          some.filter((at) => at < version),
        )
        const refused = kinds.flatMap((stored) => {
          try {
            upcast({ ...stored, data: [] }, upcasters)
            return []
          } catch (error) {
            return isReprise(error) ? [`${stored.type} ${stored.version} ${error.code}`] : ['another error']
          }
        })
        const found = missingPaths(kinds, upcasters).map((path) => `${path.type} ${path.version} ${path.code}`)
        expect(found).toEqual(refused)
      },
    ),
  )
})

test('an entry that is up to date comes back as the same object', () => {
  const entry = { type: 'moved', version: 2, data: {} }
  expect(upcast(entry, tracing(2, [1]))).toBe(entry)
  const unlisted = { type: 'toString', version: 1, data: 1 }
  expect(upcast(unlisted, {})).toBe(unlisted)
})

test('a renamed type continues under its new name, also when it is retired altogether', () => {
  const upcasters: Upcasters = {
    plus: {
      version: 2,
      from: {
        1: (data) => ({ by: data }),
        2: { type: 'added', version: 1, data: (d) => ({ ...(d as object), old: true }) },
      },
    },
    added: { version: 2, from: { 1: (data) => ({ ...(data as object), unit: 'piece' }) } },
  }
  checkUpcasters(upcasters)
  expect(upcast({ seq: 4, type: 'plus', version: 1, data: 3 }, upcasters)).toEqual({
    seq: 4,
    type: 'added',
    version: 2,
    data: { by: 3, old: true, unit: 'piece' },
  })
  expect(
    missingPaths(
      [
        { type: 'plus', version: 1 },
        { type: 'added', version: 1 },
      ],
      upcasters,
    ),
  ).toEqual([])
})

test('a missing link names the type and version at which the path ends, and where it started', () => {
  const upcasters: Upcasters = {
    plus: { version: 1, from: { 1: { type: 'added', version: 1 } } },
    added: { version: 2 },
  }
  const error = failure(() => upcast({ seq: 9, type: 'plus', version: 1, data: 3 }, upcasters))
  expect(error.code).toBe('UPCAST_MISSING')
  expect(error.message).toContain('added from version 1 (written as plus 1)')
  expect(error.data).toMatchObject({ seq: 9, type: 'added', version: 1, written: { type: 'plus', version: 1 } })
  expect(missingPaths([{ type: 'plus', version: 1 }], upcasters)).toMatchObject([
    { type: 'plus', version: 1, endsAt: { type: 'added', version: 1 }, code: 'UPCAST_MISSING' },
  ])
})

test('an entry from newer code is refused, never guessed at', () => {
  expect(failure(() => upcast({ type: 'moved', version: 4, data: [] }, tracing(3, [1, 2]))).code).toBe(
    'INCOMPATIBLE_VERSION',
  )
  expect(failure(() => upcast({ type: 'unlisted', version: 2, data: [] }, {})).code).toBe('INCOMPATIBLE_VERSION')
})

test('an upcaster that throws is a failed fold with the entry named', () => {
  const cause = new Error('no unit')
  const upcasters: Upcasters = {
    added: {
      version: 2,
      from: {
        1: () => {
          throw cause
        },
      },
    },
  }
  const error = failure(() => upcast({ seq: 3, type: 'added', version: 1, data: 0 }, upcasters))
  expect(error).toMatchObject({ code: 'FOLD_FAILED', cause, data: { seq: 3, type: 'added', version: 1 } })
})

test('declarations that cannot work are refused when they are made', () => {
  const same = (data: unknown) => data
  const bad: Record<string, Upcasters> = {
    'version zero': { a: { version: 0 } },
    'half a version': { a: { version: 1.5 } },
    'a link from the current version': { a: { version: 2, from: { 2: same } } },
    'a link from the future': { a: { version: 2, from: { 3: { type: 'b', version: 1 } } } },
    'a link that is nothing': { a: { version: 2, from: { 1: undefined as never } } },
    'a rename in a circle': {
      a: { version: 1, from: { 1: { type: 'b', version: 1 } } },
      b: { version: 2, from: { 1: same, 2: { type: 'a', version: 1 } } },
    },
    'a rename to itself': { a: { version: 1, from: { 1: { type: 'a', version: 1 } } } },
  }
  for (const [name, upcasters] of Object.entries(bad)) {
    expect(failure(() => checkUpcasters(upcasters)).code, name).toBe('INVALID_ARGUMENT')
  }
})
