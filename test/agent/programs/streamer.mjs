// A session that streams one turn of words from the service, and kills itself after so many of them, or resumes.
//   node streamer.mjs URL SERVICE RUN POLICY WORDS [KILL]

import { open } from '../../../dist/index.js'
import { agent } from '../../../dist/layers/agent/index.js'

const [url, service, run, modelInDoubt, words, kill] = process.argv.slice(2)

async function* generate({ key, partial }) {
  const from = modelInDoubt === 'continue' ? partial.split(' ').length - 1 : 0
  // Half a word that was streamed is given again whole only from where it was cut.
  const overlap = modelInDoubt === 'continue' ? partial.length - (partial.lastIndexOf(' ') + 1) : 0
  const body = JSON.stringify({ key, from, to: Number(words) })
  const response = await fetch(`${service}/${run}/model`, { method: 'POST', body })
  let skip = overlap
  let seen = 0
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const text = piece.slice(skip)
    skip = Math.max(0, skip - piece.length)
    seen += piece.split(' ').length - 1
    if (text !== '') yield { text }
    if (kill !== undefined && seen >= Number(kill)) process.kill(process.pid, 'SIGKILL')
  }
  yield { usage: { outputTokens: Number(words), cost: 1 } }
}

const streamed = agent('streamed', { model: generate, modelInDoubt })
const rp = await open(url)
const session = await rp.open(streamed, 's', { wait: '20s' })
const result = session.state.turn === 0 ? await session.turn('go', { key: 'one' }) : await session.resume()
console.log(
  JSON.stringify({ status: result.status, waiting: result.waiting, content: result.content, usage: session.usage }),
)
await rp.close()
