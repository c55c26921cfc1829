// The same work by other workflow engines, in the same run and taking turns at going first. DBOS is compared with Reprise on the
// same PostgreSQL server, and also with Reprise on SQLite: the default store of each. OpenWorkflow and Restate, which store
// their data in local files, are compared with Reprise on SQLite. A peer that is not installed is skipped. Absurd is missing:
// its SQL is installed by a tool that npm does not have.

import { open } from '../../dist/index.js'
import { pair } from '../measure.mjs'
import { benchPostgres, temporaryFolder } from './stores.mjs'
import { startPeer } from './workflow-peers.mjs'

const peers = [
  { title: 'dbos', name: 'dbos', store: 'postgres', place: 'postgres', target: { ratioMin: 10 } },
  { title: 'dbos-by-default', name: 'dbos', store: 'sqlite', place: 'postgres', target: { ratioMin: 10 } },
  { title: 'restate', name: 'restate', store: 'sqlite', place: 'folder', target: { ratioMin: 6 } },
  { title: 'openworkflow', name: 'openworkflow', store: 'sqlite', place: 'folder', target: undefined },
]

/**
 * `ours` has the two workloads: runsThreeSteps(rp, count) and stepsSequential(rp, count), each returning { elapsedMs, cpuMs }.
 */
export function versusBenches(ours, times) {
  return peers.flatMap((peer) => [
    versusBench(
      `runs-3-steps-versus-${peer.title}`,
      'runs/s',
      peer,
      peer.target,
      'runsThreeSteps',
      ours,
      times(1000),
      times(1000),
    ),
    versusBench(`steps-sequential-versus-${peer.title}`, 'steps/s', peer, undefined, 'stepsSequential', ours, 200, 50),
  ])
}

function versusBench(name, unit, peer, target, workload, ours, count, warmUp) {
  let world
  return {
    name,
    unit,
    ...(target && { target }),
    note: `ours on ${peer.store}; the baseline is ${peer.name}${peer.place === 'folder' ? '' : ` on ${peer.place}`}`,
    async setup() {
      world = await openWorld(peer)
      if (!world) return
      // As long as in the benches without a peer, for both sides: the steady state is measured.
      await ours[workload](world.rp, warmUp)
      await world.peer[workload](warmUp)
    },
    async run({ index }) {
      if (!world) return { skip: `${peer.name} is not installed, or there is no ${peer.place}` }
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

async function openWorld({ name, store, place: peerPlace }) {
  const place = temporaryFolder()
  const server = peerPlace === 'postgres' ? await benchPostgres() : null
  if (peerPlace === 'postgres' && !server) return null
  const peer = await startPeer(name, server ? server.url : place.folder)
  const url = store === 'postgres' ? server?.url : `sqlite:${place.path('ours.db')}`
  const rp = peer && (await open(url, { namespace: `bench-${Date.now()}` }))
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
