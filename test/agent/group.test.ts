// Groups of sessions: consistent cuts with messages in flight, restored together; the recovery line of checkpoints that
// were taken independently, with the cascade it shows.

import { describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { agent, groupRecoveryLine, readCut, restoreCut, type Session, tool } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const undone: string[] = []
const team = agent('team', {
  model: ({ messages }) =>
    messages.at(-1)!.role === 'tool' ? { content: 'ok' } : { content: '', requests: [{ tool: 'order', args: {} }] },
  tools: {
    order: tool({
      kind: 'compensatable',
      run: (_args: object, { key }) => ({ key }),
      compensate: (_args, { key }) => undone.push(key),
    }),
  },
  checkpoint: {},
})

async function openAll(rp: Reprise, members: readonly string[]): Promise<Session<null>[]> {
  return await Promise.all(members.map((member) => rp.open(team, member)))
}

const contents = (session: Session<null>) => session.messages.map((message) => message.content)

describe('groups', () => {
  onEveryStore('A3.5 a cut', (world) => {
    it('captures mail in flight, and after a common restore every received message was sent', async () => {
      const w = await world()
      const rp = await w.engine()
      const members = ['a', 'b', 'c']
      const [a, b, c] = (await openAll(rp, members)) as [Session<null>, Session<null>, Session<null>]
      await a.send('b', 'before')
      await b.receive()
      await c.send('b', 'in flight')
      await a.captureCut('cut-1', members)
      await b.receive()
      await b.send('a', 'after the cut')
      await a.send('b', 'after it, too')
      await a.receive()
      const cut = await readCut(rp, team, 'cut-1')
      expect(cut).toMatchObject({ isComplete: true, missing: [], inFlight: 1 })
      await b.turn('work')
      await a.send('c', 'later')
      for (const each of [a, b, c]) await each.close()
      await restoreCut(rp, team, 'cut-1')
      const [a2, b2, c2] = (await openAll(rp, members)) as [Session<null>, Session<null>, Session<null>]
      for (const each of [a2, b2, c2]) await each.receive()
      expect(contents(a2)).toEqual([])
      expect(contents(b2)).toEqual(['before', 'in flight'])
      expect(contents(c2)).toEqual([])
      // The order that b made after the cut was undone.
      expect(undone.length).toBeGreaterThan(0)
    })

    it('leaves unread mail in place, and drops mail sent after the cut', async () => {
      const w = await world()
      const rp = await w.engine()
      const members = ['x', 'y']
      const [x, y] = (await openAll(rp, members)) as [Session<null>, Session<null>]
      await x.send('y', 'sent before')
      await y.captureCut('cut-2', members)
      await x.send('y', 'sent after')
      await restoreCut(rp, team, 'cut-2')
      const again = await rp.open(team, 'y')
      expect((await again.receive()).map((one) => one.content)).toEqual(['sent before'])
    })

    it('shows the recovery line of independent checkpoints, and who falls back because of whom', async () => {
      const w = await world()
      const rp = await w.engine()
      const [a, b] = (await openAll(rp, ['p', 'q'])) as [Session<null>, Session<null>]
      await b.checkpoint()
      await a.send('q', 'one')
      await b.receive()
      await a.checkpoint()
      await b.checkpoint()
      await a.send('q', 'two')
      await b.receive()
      await b.checkpoint()
      const line = await groupRecoveryLine(rp, team, ['p', 'q'], ['p'])
      // p loses "two"; q has received it and has to go back behind it.
      expect(line.at).toEqual({ 'agent/team/p': 1, 'agent/team/q': 1 })
      expect(line.cascade.map((step) => step.process)).toEqual(['agent/team/p', 'agent/team/q'])
      expect(line.cascade[1]!.because).toMatchObject({ from: 'agent/team/p', to: 'agent/team/q' })
    })
  })
})
