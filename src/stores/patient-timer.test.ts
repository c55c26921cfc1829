// A limit that counts only time in which the event loop turned.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { patientTimer } from './patient-timer.ts'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function compute(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

it('does not take a process that computes for a server that is silent', async () => {
  let isExpired = false
  const end = patientTimer(800, () => {
    isExpired = true
  })
  // Longer than the limit in total, with an occasional turn of the loop.
  for (let i = 0; i < 2; i++) {
    compute(500)
    await turn()
    await turn()
  }
  expect(isExpired).toBe(false)
  end()
})

it('ends a wait for a silent peer', async () => {
  await new Promise<void>((resolve) => patientTimer(20, resolve))
})

it('an answer that came in while the process computed is read before the limit takes effect', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const accepted = once(server, 'connection')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [[peer]] = (await Promise.all([accepted, once(client, 'connect')])) as unknown as [[Socket]]
  let isExpired = false
  const end = patientTimer(20, () => {
    isExpired = true
  })
  client.once('data', end)
  peer.write('answer')
  compute(60)
  await once(client, 'data')
  await turn()
  expect(isExpired).toBe(false)
  client.destroy()
  server.close()
})
