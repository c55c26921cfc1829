import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { noWatermark, PartitionWatermark, WatermarkMerge } from './watermarks.ts'

type Command =
  | { readonly do: 'advance'; readonly id: number; readonly to: number }
  | { readonly do: 'idle' | 'add' | 'remove'; readonly id: number }

const id = fc.nat(3)
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('advance' as const), id, to: fc.integer({ min: -5, max: 50 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('idle' as const, 'add' as const, 'remove' as const), id }) },
)

describe('a merged watermark', () => {
  it('only rises, and rises to the lowest of its active inputs', () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const merge = new WatermarkMerge<number>()
        const inputs = new Map<number, { watermark: number; isIdle: boolean }>()
        let highest: number = noWatermark
        for (const each of commands) {
          const input = inputs.get(each.id)
          if (each.do === 'add') {
            if (input) continue
            inputs.set(each.id, { watermark: noWatermark, isIdle: false })
            merge.add(each.id)
          } else if (!input) continue
          else if (each.do === 'remove') {
            inputs.delete(each.id)
            merge.remove(each.id)
          } else if (!('to' in each)) {
            input.isIdle = true
            merge.idle(each.id)
          } else {
            input.isIdle = false
            input.watermark = Math.max(input.watermark, each.to)
            merge.advance(each.id, each.to)
          }
          const active = [...inputs.values()].filter(({ isIdle }) => !isIdle)
          const watermarks = (active.length > 0 ? active : [...inputs.values()]).map(({ watermark }) => watermark)
          const merged = active.length > 0 ? Math.min(...watermarks) : Math.max(noWatermark, ...watermarks)
          highest = Math.max(highest, merged)
          expect(merge.current).toBe(highest)
          expect(merge.isIdle).toBe(inputs.size > 0 && active.length === 0)
        }
      }),
    )
  })

  it('names the inputs that hold it back', () => {
    const merge = new WatermarkMerge<string>()
    for (const name of ['fast', 'slow', 'silent']) merge.add(name)
    merge.advance('fast', 100)
    merge.advance('slow', 3)
    expect(merge.slowest()).toEqual(['silent'])
    merge.idle('silent')
    expect(merge.slowest()).toEqual(['slow'])
  })
})

describe('the watermark of a partition', () => {
  it('stays behind the highest time by what may come out of order, and goes idle by the clock', () => {
    const partition = new PartitionWatermark({ outOfOrderMs: 5, idleMs: 30 }, 1000)
    expect(partition.current).toBe(noWatermark)
    expect(partition.observe(50, 1010)).toBe(45)
    expect(partition.observe(40, 1020)).toBe(45)
    expect(partition.isIdleAt(1049)).toBe(false)
    expect(partition.isIdleAt(1050)).toBe(true)
    expect(new PartitionWatermark({ outOfOrderMs: 0, idleMs: null }, 0).isIdleAt(1e9)).toBe(false)
  })
})
