// Watermarks before and after an operator whose record waits: withheld, never lost, and never out of order.

import { expect, it } from 'vitest'
import type { Output } from '../batch.ts'
import { WatermarkGate } from './watermark-gate.ts'

function noted(name: string, into: string[]): Output {
  return {
    batch: ({ values }) => void into.push(`${name} ${values.join()}`),
    watermark: (time) => void into.push(`${name} @${time}`),
    idle: () => void into.push(`${name} idle`),
  }
}

it('lets records through at any time, and watermarks only while it is open', () => {
  const seen: string[] = []
  let isClosed = false
  const gate = new WatermarkGate(() => isClosed)
  const input = gate.before(noted('in', seen))
  input.watermark(1)
  isClosed = true
  input.batch({ values: [7], times: null, keys: null })
  input.watermark(2)
  input.watermark(3)
  input.idle()
  expect(seen).toEqual(['in @1', 'in 7'])
  isClosed = false
  gate.open()
  gate.open()
  expect(seen.slice(2)).toEqual(['in @3', 'in idle'])
})

it('emits the records withheld behind the operator before those withheld in front of it', () => {
  const seen: string[] = []
  let isClosed = false
  const gate = new WatermarkGate(() => isClosed)
  const output = gate.behind(noted('out', seen))
  // An operator that passes watermarks on at once.
  const input = gate.before({
    batch: () => undefined,
    watermark: (time) => output.watermark(time),
    idle: () => output.idle(),
  })
  isClosed = true
  output.watermark(1)
  input.watermark(5)
  isClosed = false
  gate.open()
  expect(seen).toEqual(['out @1', 'out @5'])
})
