// Workflow engines beside Reprise, if they are installed: npm i --prefix bench/versus/workflow --ignore-scripts. Each runs in a
// process of its own, so that its processor time is measured separately.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../versus/workflow/', import.meta.url))
const packages = { dbos: '@dbos-inc/dbos-sdk', openworkflow: 'openworkflow', restate: '@restatedev/restate-server' }

/** Null if it is not installed. `place` is a database URL or a folder. */
export async function startPeer(name, place) {
  if (!existsSync(`${folder}node_modules/${packages[name]}`)) return null
  const child = fork(`${folder}peer.mjs`, [name, place], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const ask = async (order) => {
    if (order) child.send(order)
    const [answer] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => [{ error: `${name} ended with ${code}` }]),
    ])
    if (answer.error) throw new Error(`${name}: ${answer.error}`)
    return answer
  }
  try {
    await ask()
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return {
    /** Each returns { elapsedMs, cpuMs }. */
    runsThreeSteps: (count) => ask({ runs: count }),
    stepsSequential: (count) => ask({ steps: count }),
    async close() {
      child.send('end')
      const patience = setTimeout(() => child.kill('SIGKILL'), 5000)
      await once(child, 'exit')
      clearTimeout(patience)
    },
  }
}
