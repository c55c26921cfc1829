// Saves of a long training: the whole state is put now and then, the last saves are kept, and the newest whole one is found
// again, also after a crash in the middle of a put. `runExample` trains a very small model.

import { open } from 'reprise'
import { save } from 'reprise/save'

interface Model {
  readonly step: number
  readonly weights: Float64Array
}

export const training = save<Model>('training', { keep: 5 })

export async function runExample(url = 'memory:', steps = 20) {
  const rp = await open(url)
  try {
    const weights = await rp.open(training)
    // Where the last run stopped, or from the beginning.
    const found = await weights.latest().catch(() => null)
    let model: Model = found?.value ?? { step: 0, weights: new Float64Array(1000) }
    const resumedFrom = model.step
    for (let n = 0; n < steps; n++) {
      model = { step: model.step + 1, weights: model.weights.map((w, i) => w + Math.sin(i)) }
      if (model.step % 5 === 0) await weights.put(model, { label: `step ${model.step}` })
    }
    // Weights too large for memory are put as a stream: createReadStream('weights.bin'), or any iterable of bytes.
    await weights.putStream([new Uint8Array(model.weights.buffer)], model, { pin: true })
    const list = await weights.list()
    return { resumedFrom, step: (await weights.latest()).value.step, labels: list.map(({ label }) => label) }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('training.ts')) console.log(await runExample())
