// One peer in a process of its own, used as its documentation shows: node peer.mjs NAME PLACE. PLACE is a database URL or a
// folder. It prints `ready`, or the reason why it cannot run; then it answers each { runs } or { steps } with the duration and
// the processor time of this process and of a server that the peer started.

const [, , name, place] = process.argv

try {
  const { openPeer } = await import(`./${name}.mjs`)
  const peer = await openPeer(place)
  process.on('message', async (order) => {
    try {
      if (order === 'end') {
        await peer.close()
        process.exit(0)
      }
      const cpuBefore = cpuMs(peer)
      const startedAt = performance.now()
      if (order.runs) await peer.runsThreeSteps(order.runs)
      else await peer.stepsSequential(order.steps)
      process.send({ elapsedMs: performance.now() - startedAt, cpuMs: cpuMs(peer) - cpuBefore })
    } catch (error) {
      process.send({ error: String(error?.message ?? error) })
    }
  })
  process.send('ready')
} catch (error) {
  process.send({ error: String(error?.message ?? error) })
  process.disconnect()
}

function cpuMs(peer) {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000 + (peer.serverCpuMs?.() ?? 0)
}
