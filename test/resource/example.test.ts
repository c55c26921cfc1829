// The deployment controller of the guide, with real processes and SIGKILL: after the kill of a process or of the controller,
// the desired replicas run again, each once.

import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { open } from 'reprise'
import { afterEach, expect, it } from 'vitest'
import { type Deployment, deployments, processesOf } from '../../examples/deployments.ts'
import { until } from '../support/fixture.ts'
import { programPath } from '../support/programs.ts'
import { storeUrls } from '../support/store-urls.ts'

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

function startController(url: string) {
  const child = spawn(process.execPath, [programPath('deployment-controller'), url], { stdio: 'inherit' })
  const closed = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  ends.push(kill)
  return { kill, closed }
}

it.each(Object.keys(storeUrls))(
  'what is wanted runs, each replica once, after SIGKILL of a process and of the controller (%s)',
  {
    timeout: 300_000,
  },
  async (kind) => {
    const { url, remove } = storeUrls[kind]!()
    ends.push(remove)
    const cluster = `deployments-${randomUUID()}`
    const rp = await open(url)
    ends.push(() => rp.close())
    const handle = await rp.open(deployments)
    // They end by themselves, should this test be killed.
    const spec = (seconds: number, replicas: number): Deployment => ({
      cluster,
      command: [process.execPath, '-e', `setTimeout(() => undefined, ${seconds}_000)`],
      replicas,
    })
    const web = await handle.create({ name: 'web', spec: spec(300, 2) })
    const running = async () => (await processesOf(web)).map(({ pid }) => pid)
    ends.push(async () => {
      for (const pid of await running()) process.kill(pid, 'SIGKILL')
    })
    /** The status reports the newest generation, and lists exactly the running replicas. */
    const isSo = async (replicas: number) => {
      const object = await handle.get('web')
      const pids = object?.status?.pids ?? []
      if (object?.observedGeneration !== object?.generation || pids.length !== replicas) return false
      const found = await running()
      return found.length === replicas && found.every((pid) => pids.includes(pid))
    }
    let first = startController(url)
    await until(() => isSo(2), first.closed)
    const [one, two] = (await running()) as [number, number]

    // A process dies: another one replaces it, and the other continues.
    process.kill(one, 'SIGKILL')
    await until(async () => (await isSo(2)) && !(await running()).includes(one), first.closed)
    expect(await running()).toContain(two)

    // The controller dies, and much happens before another one starts. Processes that still run are taken over, not started
    // again.
    const before = await running()
    await first.kill()
    expect(await running()).toEqual(before)
    await handle.change('web', () => ({ spec: spec(300, 3) }))
    process.kill(two, 'SIGKILL')
    first = startController(url)
    const second = startController(url)
    await until(() => isSo(3), Promise.all([first.closed, second.closed]))
    expect(await running()).toEqual(expect.arrayContaining(before.filter((pid) => pid !== two)))

    // One of two dies while another command is being rolled out: whichever is left does the rest.
    const old = await running()
    await handle.change('web', () => ({ spec: spec(301, 1) }))
    await first.kill()
    await until(() => isSo(1), second.closed)
    expect(old).not.toContain((await running())[0])

    // A deleted one goes when its processes have ended, not before.
    await handle.delete('web')
    await until(async () => (await handle.get('web')) === undefined, second.closed)
    expect(await running()).toEqual([])
    expect((await rp.verify()).faults).toEqual([])
  },
)
