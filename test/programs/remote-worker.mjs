// A worker of a remote queue: prints the key of each task when it begins it, and again with a plus when its result was
// acknowledged. Requests are repeated until they are answered.

const queue = process.argv[2]
const base = `${process.env.REPRISE_SERVER}/v1/remote/${queue}`
const headers = { authorization: `Bearer ${process.env.REPRISE_TOKEN}`, 'content-type': 'application/json' }

async function insist(verb, body) {
  for (;;) {
    try {
      const response = await fetch(`${base}/${verb}`, { method: 'POST', headers, body: JSON.stringify(body) })
      if (response.ok) return await response.json()
    } catch {
      // The connection was cut, or no server answers.
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

for (;;) {
  const { tasks } = await insist('claim', { max: 2, waitMs: 2000, ttlMs: 20_000 })
  for (const { key } of tasks) console.log(`-${key}`)
  if (tasks.length === 0) continue
  await insist('heartbeat', { tasks: tasks.map(({ task }) => task), ttlMs: 20_000 })
  const results = tasks.map(({ task, input }) => ({ task, result: input.seq }))
  const { settled } = await insist('results', { results })
  for (const { task, key } of tasks) if (settled.includes(task)) console.log(`+${key}`)
}
