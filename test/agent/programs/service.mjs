// The outside service, in a process of its own: counts requests by run and key, and streams words as a model would. Prints its
// port. GET /RUN returns all facts about a run.

import { createServer } from 'node:http'

const runs = new Map()
const runOf = (name) => {
  if (!runs.has(name)) runs.set(name, { calls: {}, confused: [], order: [], undone: {}, undoOrder: [], models: [] })
  return runs.get(name)
}

const acts = {
  /** A known key is answered with the first result; one that comes with another intent is noted. */
  call(run, { kind, key, intent = kind }) {
    run.calls[key] ??= { kind, count: 0, intent }
    if (run.calls[key].intent !== intent) run.confused.push({ key, intent, first: run.calls[key].intent })
    run.calls[key].count += 1
    run.order.push(key)
    return { id: key }
  },
  undo(run, { id }) {
    if (run.undone[id] === undefined) run.undoOrder.push(id)
    run.undone[id] = (run.undone[id] ?? 0) + 1
    return { id }
  },
  probe: (run, { key }) => (run.calls[key] ? { happened: true, result: { id: key } } : { happened: false }),
}

/** Words from `from` to `to`, one every few milliseconds, while the client is connected. */
async function stream(run, { key, from, to }, response) {
  const made = { key, from, words: 0 }
  run.models.push(made)
  for (let n = from; n < to && !response.destroyed; n++) {
    response.write(`word-${n} `)
    made.words += 1
    await new Promise((resolve) => setTimeout(resolve, 4))
  }
  response.end()
}

const server = createServer((request, response) => {
  let body = ''
  request.on('data', (piece) => {
    body += piece
  })
  request.on('end', () => {
    const [name, act] = request.url.slice(1).split('/')
    const run = runOf(name)
    const asked = body === '' ? {} : JSON.parse(body)
    if (act === 'model') void stream(run, asked, response)
    else response.end(JSON.stringify(act === undefined ? run : acts[act](run, asked)))
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
// Ends with its parent process.
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
