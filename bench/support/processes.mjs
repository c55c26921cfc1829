// Several processes on one PostgreSQL: the cost of a run in all of them and in the server together.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { serverCpu } from './server-cpu.mjs'

const worker = fileURLToPath(new URL('./run-worker.mjs', import.meta.url))

function startProcess(url, name) {
  const child = fork(worker, [url, name], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const waiting = new Map()
  const self = {
    finished: 0,
    onFinished: () => undefined,
    tell(order, rest = {}) {
      child.send({ order, ...rest })
      return self.done(order)
    },
    done: (order) =>
      new Promise((resolve, reject) => {
        waiting.set(order, resolve)
        child.once('exit', (code) => reject(new Error(`a process ended with ${code} instead of answering ${order}`)))
      }),
    async end() {
      const left = new Promise((resolve) => child.once('exit', resolve))
      child.send({ order: 'end' })
      await left
    },
  }
  child.setMaxListeners(50)
  child.on('message', (message) => {
    if (message.finished === undefined) return waiting.get(message.done)?.(message.answer)
    self.finished = message.finished
    self.onFinished()
  })
  return self
}

/** Warm-up runs of each process before the measurement. */
const warmUp = 500

/**
 * Milliseconds per run in total, with the same number of runs for each process. `how`: 'own' (each process executes the runs
 * that it starts) or 'claimed' (one more process starts them, whose processor time counts as well).
 */
export async function costByProcesses(serverUrl, { processes, each, how, namespace }) {
  const cpu = await serverCpu(serverUrl)
  if (!cpu) return null
  const url = `${serverUrl}?namespace=${namespace}`
  const start = async () => {
    const started = startProcess(url, 'three-steps')
    await started.done('open')
    return started
  }
  const workers = []
  for (let n = 0; n < processes; n++) workers.push(await start())
  const other = how === 'own' ? null : await start()
  const all = other ? [...workers, other] : workers
  const finished = (target) =>
    new Promise((resolve) => {
      const look = () => workers.reduce((sum, one) => sum + one.finished, 0) >= target && resolve()
      for (const one of workers) one.onFinished = look
      look()
    })
  const cpuNow = async () => {
    const used = await Promise.all(all.map((one) => one.tell('cpu')))
    return used.reduce((sum, ms) => sum + ms, 0)
  }
  // The same number for each process, so that the code of all of them is compiled alike.
  let target = 0
  const work = async (some) => {
    target += some * processes
    if (how === 'own') await Promise.all(workers.map((one) => one.tell('own', { count: some })))
    else await other.tell('enter', { count: some * processes })
    await finished(target)
  }
  if (how === 'claimed') await Promise.all(workers.map((one) => one.tell('work')))
  await work(warmUp)
  const before = { server: cpu(), clients: await cpuNow(), at: performance.now() }
  await work(each)
  const count = each * processes
  const seconds = (performance.now() - before.at) / 1000
  const serverMs = (cpu() - before.server) / count
  const clientMs = ((await cpuNow()) - before.clients) / count
  for (const one of all) await one.end()
  return { ms: serverMs + clientMs, serverMs, clientMs, perSecond: count / seconds }
}
