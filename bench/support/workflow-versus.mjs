// The same work by other workflow engines, in the same run and taking turns at going first. DBOS meets ours on the same
// PostgreSQL server; OpenWorkflow and Restate, which keep their data in local files, meet ours on SQLite. A peer that is not
// installed is skipped. Absurd is not here: its SQL comes with a tool that npm does not have.

import { open } from '../../dist/index.js'
import { pair } from '../measure.mjs'
import { benchPostgres, temporaryFolder } from './stores.mjs'
import { startPeer } from './workflow-peers.mjs'

const peers = [
  { name: 'dbos', store: 'postgres', target: { ratioMin: 10 } },
  { name: 'restate', store: 'sqlite', target: { ratioMin: 5 } },
  { name: 'openworkflow', store: 'sqlite', target: undefined },
]

/** `ours` has the two workloads: runsThreeSteps(rp, count) and stepsSequential(rp, count), each giving { elapsedMs, cpuMs }. */
export function versusBenches(ours, times) {
  return peers.flatMap(({ name, store, target }) => [
    versusBench(`runs-3-steps-versus-${name}`, 'runs/s', name, store, target, 'runsThreeSteps', ours, times(1000), 100),
    versusBench(`steps-sequential-versus-${name}`, 'steps/s', name, store, undefined, 'stepsSequential', ours, 200, 50),
  ])
}

function versusBench(name, unit, peer, store, target, workload, ours, count, warmUp) {
  let world
  return {
    name,
    unit,
    ...(target && { target }),
    note: `ours on ${store}; the baseline is ${peer}`,
    async setup() {
      world = await openWorld(peer, store)
      if (!world) return
      await ours[workload](world.rp, warmUp)
      await world.peer[workload](warmUp)
    },
    async run({ index }) {
      if (!world) return { skip: `${peer} is not installed, or there is no ${store}` }
      const cpu = { ours: 0, theirs: 0 }
      const rate = (side, { elapsedMs, cpuMs }) => {
        cpu[side] = cpuMs / count
        return (count * 1000) / elapsedMs
      }
      const sample = await pair({
        value: async () => rate('ours', await ours[workload](world.rp, count)),
        baseline: async () => rate('theirs', await world.peer[workload](count)),
      })({ index })
      return { ...sample, details: { ourCpuMs: cpu.ours, theirCpuMs: cpu.theirs } }
    },
    teardown: () => world?.close(),
  }
}

async function openWorld(name, store) {
  const place = temporaryFolder()
  const server = store === 'postgres' ? await benchPostgres() : null
  if (store === 'postgres' && !server) return null
  const peer = await startPeer(name, server ? server.url : place.folder)
  const rp =
    peer && (await open(server ? server.url : `sqlite:${place.path('ours.db')}`, { namespace: `bench-${Date.now()}` }))
  const close = async () => {
    await rp?.close()
    await peer?.close()
    await server?.stop()
    place.remove()
  }
  if (peer) return { peer, rp, close }
  await close()
  return null
}
