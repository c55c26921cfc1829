// Restate: its server, with its defaults, and a service that it calls over HTTP/2. The server's processor time counts.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import * as restate from '@restatedev/restate-sdk'

// Its SDK needs this from Node 22.
Promise.withResolvers ??= () => {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}

export async function openPeer(folder) {
  const [ingress, admin, fabric, service] = await Promise.all([freePort(), freePort(), freePort(), freePort()])
  const server = spawn(
    binary(),
    ['--node-name', 'bench', '--base-dir', folder, '--bind-address', `127.0.0.1:${fabric}`],
    {
      env: {
        ...process.env,
        RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
        RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
        RESTATE_DISABLE_TELEMETRY: 'true',
        RESTATE_LOG_FILTER: 'error',
        DO_NOT_TRACK: '1',
      },
      stdio: 'ignore',
    },
  )
  process.on('exit', () => server.kill('SIGKILL'))
  const bench = restate.service({
    name: 'bench',
    handlers: {
      three: async (ctx, n) => {
        const a = await ctx.run('a', () => n + 1)
        const b = await ctx.run('b', () => a + 1)
        return await ctx.run('c', () => b + 1)
      },
      steps: async (ctx, count) => {
        for (let i = 0; i < count; i++) await ctx.run('s', () => i)
        return count
      },
    },
  })
  await restate.serve({ services: [bench], port: service })
  await until(`http://127.0.0.1:${admin}/health`)
  await until(`http://127.0.0.1:${ingress}/restate/health`)
  const registered = await post(`http://127.0.0.1:${admin}/deployments`, {
    uri: `http://127.0.0.1:${service}`,
    force: true,
  })
  if (!registered.ok) throw new Error(`restate did not take the service: ${await registered.text()}`)
  const call = async (handler, input) => {
    const answer = await post(`http://127.0.0.1:${ingress}/bench/${handler}`, input)
    if (!answer.ok) throw new Error(`restate answered ${answer.status}: ${await answer.text()}`)
    return await answer.json()
  }
  return {
    async runsThreeSteps(count) {
      await Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const result = await call('three', i)
          if (result !== i + 3) throw new Error(`run ${i} gave ${result}`)
        }),
      )
    },
    async stepsSequential(count) {
      await call('steps', count)
    },
    serverCpuMs: () => cpuMsOf(server.pid),
    async close() {
      server.kill('SIGKILL')
    },
  }
}

function binary() {
  const require = createRequire(import.meta.url)
  const platform = `@restatedev/restate-server-${process.platform}-${process.arch}`
  return join(dirname(require.resolve(`${platform}/package.json`)), 'bin/restate-server')
}

function post(url, body) {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

async function until(url) {
  for (let tries = 0; ; tries++) {
    const answer = await fetch(url).catch(() => null)
    if (answer?.ok) return
    if (tries > 300) throw new Error(`restate did not come up at ${url}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** User and system time of a process, in ticks of 10 ms, from the kernel. */
function cpuMsOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return 0
  }
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}
