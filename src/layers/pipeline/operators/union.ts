// Merges several streams into one. Each has its own watermark; the union's watermark is the lowest of the inputs that are not
// idle, so one silent stream does not stop all windows once it is declared idle.

import type { Output } from '../batch.ts'
import { keepsOrder, type MakeOperator, stateless } from '../operator.ts'
import { WatermarkMerge } from '../rules/watermarks.ts'

/** The inputs of an operator with several inputs and one merged watermark. */
export function mergedInputs(
  batches: readonly Output['batch'][],
  next: Pick<Output, 'watermark' | 'idle'>,
): readonly Output[] {
  const merge = new WatermarkMerge<number>()
  batches.forEach((_, input) => void merge.add(input))
  let given = merge.current
  const give = (watermark: number) => {
    if (watermark <= given) return
    given = watermark
    next.watermark(watermark)
  }
  return batches.map((batch, input) => ({
    batch,
    watermark: (time) => give(merge.advance(input, time)),
    idle() {
      give(merge.idle(input))
      if (merge.isIdle) next.idle()
    },
  }))
}

export function union(inputs: number): MakeOperator {
  return keepsOrder(([next]) => {
    const batches = Array.from({ length: inputs }, () => (batch: Parameters<Output['batch']>[0]) => next!.batch(batch))
    return { ...stateless(next!), inputs: mergedInputs(batches, next!), mixed: (batch) => next!.batch(batch) }
  })
}
