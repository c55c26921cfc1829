// Views for people: the branches of a timeline, the storage, and the findings of the doctor.

import { hostOf } from '../../engine/host/host.ts'
import { checkStore } from '../../operations/doctor.ts'
import { relativesOf } from '../../operations/relatives.ts'
import { storageOf } from '../../operations/storage.ts'
import { mayReach } from '../access.ts'
import type { Route } from '../route.ts'
import { hideUnreached } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

export const lookRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/relatives',
    id: 'listRelatives',
    tag: 'timelines',
    summary: 'Its branches: ancestors, itself, forks and archives of rollbacks',
    role: 'read',
    answer: shapes.answer({
      relatives: shapes.list(
        shapes.answer({
          timeline: shapes.text,
          base: { type: 'object', nullable: true },
          seq: shapes.count,
          status: shapes.text,
          updatedAt: shapes.millis,
          isArchive: { type: 'boolean' },
        }),
      ),
    }),
    async call(call) {
      const relatives = await relativesOf(call.engine, await call.head())
      const reached = relatives.filter(({ timeline }) => mayReach(call.principal, timeline))
      return { relatives: reached.map((each) => hideUnreached(call.principal, each)) }
    },
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/flow',
    id: 'showFlow',
    tag: 'timelines',
    summary: 'The flow of a pipeline: its operators, their recent load, watermarks, the last checkpoint',
    role: 'read',
    answer: shapes.answer({
      flow: {
        type: 'object',
        nullable: true,
        description: 'null if this kind has no flow, or none was reported yet',
      },
    }),
    async call(call) {
      const head = await call.head()
      const flow =
        (await hostOf(call.engine).models.find(head.timeline)?.flows?.({ engine: call.engine, head })) ?? null
      return { flow }
    },
  },
  {
    method: 'GET',
    path: '/v1/storage',
    id: 'storage',
    tag: 'system',
    summary: 'The store, its timelines by kind, and the latest checkpoints',
    role: 'read',
    isWhole: true,
    isLong: true,
    answer: shapes.answer({
      store: shapes.answer({ kind: shapes.text, location: shapes.text }),
      kinds: shapes.list(
        shapes.answer({
          kind: { type: 'string', nullable: true },
          timelines: shapes.count,
          checkpoints: shapes.count,
          stateBytes: shapes.count,
          addedBytes: shapes.count,
        }),
      ),
      checkpoints: shapes.list(shapes.answer({ id: shapes.text, timeline: shapes.text, seq: shapes.count })),
      looked: { ...shapes.count, description: 'timelines that were read' },
      isPartial: { type: 'boolean', description: 'there are more timelines than were read' },
    }),
    call: ({ engine }) => storageOf(engine),
  },
  {
    method: 'GET',
    path: '/v1/doctor',
    id: 'doctor',
    tag: 'system',
    summary:
      'Health of everything that recovery needs: the store, its clock, workers, checkpoints, drills, housekeeping',
    role: 'read',
    isWhole: true,
    isLong: true,
    answer: shapes.answer({
      ok: { type: 'boolean' },
      checks: shapes.list(
        shapes.answer({
          name: shapes.text,
          state: { type: 'string', enum: ['ok', 'warning', 'bad'] },
          what: { type: 'string' },
        }),
      ),
    }),
    async call({ engine }) {
      const checks = await checkStore(engine, { isWorker: true })
      return { ok: checks.every(({ state }) => state !== 'bad'), checks }
    },
  },
]
