import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PipelineKey } from '../../../core/key-groups.ts'
import type { StateBlock, StateCapture } from './state-capture.ts'
import { StateTable } from './state-table.ts'

type Contents = Map<number, Map<PipelineKey, number>>

function contentsOf(table: StateTable<number>): Contents {
  const contents: Contents = new Map()
  for (const space of table.spaces()) {
    if (space.size === 0) continue
    contents.set(space.id, new Map(space.entries()))
  }
  return contents
}

function loaded(blocks: readonly StateBlock[]): Contents {
  const table = new StateTable<number>()
  for (const block of blocks) table.load(block)
  const contents = contentsOf(table)
  expect(table.size).toBe(sizeOf(contents))
  return contents
}

function sizeOf(contents: Contents): number {
  let size = 0
  for (const cells of contents.values()) size += cells.size
  return size
}

type Command =
  | { readonly do: 'set'; readonly space: number; readonly key: PipelineKey; readonly value: number }
  | { readonly do: 'delete'; readonly space: number; readonly key: PipelineKey }
  | { readonly do: 'drop'; readonly space: number }
  | { readonly do: 'capture'; readonly isFull: boolean }
  | { readonly do: 'write'; readonly cells: number }
  | { readonly do: 'publish' | 'abandon' }

const key = fc.constantFrom<PipelineKey>('a', 'b', 'c', 'd', 1, 2)
const space = fc.integer({ min: 0, max: 2 })
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('set' as const), space, key, value: fc.nat(99) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), space, key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drop' as const), space }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('capture' as const), isFull: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('write' as const), cells: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('publish' as const, 'abandon' as const) }) },
)

describe('the state of an operator', () => {
  it('comes back from its captures as it was at the barrier, whatever happens beside and between them', () => {
    fc.assert(
      // Without a size, fast-check makes short lists: too short for two captures with something between them.
      fc.property(fc.array(command, { maxLength: 80, size: 'max' }), (commands) => {
        const table = new StateTable<number>()
        let published: StateBlock[] = []
        let capture: StateCapture | null = null
        let atBarrier: Contents = new Map()
        let blocks: StateBlock[] = []
        const settle = (taken: StateCapture) => {
          const keys = blocks.reduce((sum, block) => sum + block.keys.length, 0)
          const deleted = blocks.reduce((sum, block) => sum + block.deleted.length, 0)
          expect({ keys, deleted }).toEqual(taken.promised)
          expect(taken.builtOn).toBe(sizeOf(loaded(published)))
          expect(taken.size).toBe(sizeOf(atBarrier))
          taken.publish()
          published = taken.isFull ? blocks : [...published, ...blocks]
          expect(loaded(published)).toEqual(atBarrier)
        }
        const publish = (taken: StateCapture) => {
          for (let block = taken.next(3); block; block = taken.next(3)) blocks.push(block)
          settle(taken)
        }
        for (const each of commands) {
          if (each.do === 'set') table.set(table.space(each.space), each.key, each.value)
          else if (each.do === 'delete') table.delete(table.space(each.space), each.key)
          else if (each.do === 'drop') {
            const held = table.peekSpace(each.space)
            if (held) table.drop(held)
          } else if (each.do === 'capture') {
            if (capture) continue
            atBarrier = contentsOf(table)
            blocks = []
            capture = table.capture(each.isFull || published.length === 0)
          } else if (capture && each.do === 'write') {
            const block = capture.next(each.cells)
            if (block) blocks.push(block)
            else {
              settle(capture)
              capture = null
            }
          } else if (capture) {
            if (each.do === 'publish') publish(capture)
            else capture.abandon()
            capture = null
          }
        }
        capture?.abandon()
        atBarrier = contentsOf(table)
        blocks = []
        publish(table.capture(published.length === 0))
      }),
      { numRuns: 1000 },
    )
  })

  it('writes what changed, and no more', () => {
    const table = new StateTable<number>()
    const plain = table.space(0)
    for (let i = 0; i < 100; i++) table.set(plain, i, i)
    const first = table.capture(true)
    let cells = 0
    for (let block = first.next(30); block; block = first.next(30)) cells += block.keys.length
    first.publish()
    expect(cells).toBe(100)
    table.set(plain, 5, 50)
    table.set(plain, 5, 51)
    table.delete(plain, 6)
    const second = table.capture(false)
    expect(second.next(30)).toEqual({ dropped: [], space: 0, keys: [5], values: [51], deleted: [6] })
    expect(second.next(30)).toBeUndefined()
  })
})

it('gives a value to be changed in place, and the capture under way keeps the old one', () => {
  const table = new StateTable<number[]>()
  const space = table.space(0)
  const copy = (values: number[]) => [...values]
  table.add(space, 'a', [1])
  const slot = space.slots.get('a')!
  const first = table.own(space, slot, copy)
  first.push(2)
  const capture = table.capture(false)
  const second = table.own(space, slot, copy)
  second.push(3)
  expect(second).not.toBe(first)
  expect(table.own(space, slot, copy)).toBe(second)
  expect(capture.next(10)?.values).toEqual([[1, 2]])
  expect(capture.next(10)).toBeUndefined()
  capture.publish()
  expect(table.get(space, 'a')).toEqual([1, 2, 3])
  expect(table.changed).toBe(1)
})

it('loads keys that are each stored once without a lookup, and detects a duplicate by the number of keys', () => {
  const block = { dropped: [], space: 0, keys: ['a', 2], values: [1, 2], deleted: [] }
  const table = new StateTable<number>()
  table.load(block, true)
  table.load({ ...block, space: 7 }, true)
  expect([...table.spaces()].map(({ id, size }) => [id, size])).toEqual([
    [0, 2],
    [7, 2],
  ])
  expect(table.get(table.space(0), 2)).toBe(2)
  expect(table.size).toBe(4)
  expect(table.changed).toBe(0)
  table.set(table.space(0), 'a', 10)
  expect(table.capture(false).next(10)).toMatchObject({ keys: ['a'], values: [10] })
  const short = new StateTable<number>()
  short.load(block, true)
  short.load(block, true)
  expect(short.size).toBe(2)
})
