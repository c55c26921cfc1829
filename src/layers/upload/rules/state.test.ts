import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  applyUpload,
  created,
  isExpired,
  isWhole,
  refuseAppend,
  refuseGone,
  type UploadEvent,
  type UploadState,
} from './state.ts'

const bytesMax = 1000

function newUpload(
  length: number | null,
  expiresAt: number | null = null,
  concat: 'whole' | 'part' = 'whole',
): UploadState {
  const about = { metadata: {}, metadataHeader: null, parts: [], by: null, at: 0 }
  return created({ type: 'created', length, concat, expiresAt, ...about })
}

function received(state: UploadState, offset: number, length = state.length): UploadState {
  return applyUpload(state, { type: 'received', offset, length, expiresAt: state.expiresAt })
}

describe('the life of an upload', () => {
  test('after any requests, bytes are only added, within its length, and it is complete once', () => {
    const asked = fc.record({
      from: fc.nat({ max: 1200 }),
      bytes: fc.option(fc.nat({ max: 1200 }), { nil: null }),
      arrives: fc.nat({ max: 1200 }),
      length: fc.option(fc.nat({ max: 1200 }), { nil: null }),
      isRight: fc.boolean(),
      ends: fc.nat({ max: 30 }),
    })
    fc.assert(
      fc.property(
        fc.option(fc.nat({ max: bytesMax }), { nil: null }),
        fc.array(asked, { maxLength: 25 }),
        (length, all) => {
          let state = newUpload(length)
          let wholes = 0
          for (const { from, bytes, arrives, length: said, isRight, ends } of all) {
            const at = isRight ? state.offset : from
            const refusal = refuseAppend(state, { from: at, length: said, bytes }, 0, bytesMax)
            if (refusal || state.status !== 'receiving') continue
            expect(at).toBe(state.offset)
            const whole = state.length ?? said
            const offset = Math.min(state.offset + (bytes ?? arrives), whole ?? bytesMax)
            const before = state
            state = received(state, offset, whole)
            expect(state.offset).toBeGreaterThanOrEqual(before.offset)
            expect(state.offset).toBeLessThanOrEqual(state.length ?? bytesMax)
            if (before.length !== null) expect(state.length).toBe(before.length)
            if (state.offset === state.length) {
              state = applyUpload(state, { type: 'filled', etag: 'x', hasHandler: true })
              wholes += 1
            } else if (ends === 0) state = applyUpload(state, { type: 'ended', by: 'terminated' })
            expect(isWhole(state)).toBe(state.status === 'received')
          }
          expect(wholes).toBeLessThanOrEqual(1)
          if (state.status === 'removed')
            expect(refuseAppend(state, { from: state.offset, length: null, bytes: 0 }, 0, bytesMax)?.code).toBe(
              'UPLOAD_GONE',
            )
        },
      ),
    )
  })

  test('onComplete is recorded once, and only where it may be', () => {
    const whole = applyUpload(received(newUpload(3), 3), { type: 'filled', etag: 'x', hasHandler: true })
    const start = { kind: 'workflow', name: 'w', id: 'a', input: 1 }
    const events: UploadEvent[] = [
      { type: 'handled', starts: [], result: null },
      { type: 'handled', starts: [start], result: null },
      { type: 'started' },
      { type: 'stumbled', error: 'x', isFinal: false },
      { type: 'stumbled', error: 'x', isFinal: true },
      { type: 'retried' },
      { type: 'called' },
    ]
    const next: Readonly<Record<string, readonly string[]>> = {
      received: ['called', 'handled', 'stumbled'],
      starting: ['started'],
      completed: [],
      failed: ['retried'],
    }
    fc.assert(
      fc.property(fc.array(fc.nat({ max: events.length - 1 }), { maxLength: 12 }), (choices) => {
        let state = whole
        let handled = 0
        let calls = 0
        for (const choice of choices) {
          const event = events[choice]!
          const mayBe = next[state.status]!.includes(event.type)
          if (!mayBe) {
            expect(() => applyUpload(state, event)).toThrow()
            continue
          }
          // A call counts once: when it begins, or at its end if the beginning was not recorded.
          if (event.type === 'called' || (event.type !== 'started' && event.type !== 'retried' && !state.isCalling))
            calls += 1
          if (event.type === 'retried') calls = 0
          state = applyUpload(state, event)
          expect(state.attempts).toBe(calls)
          if (event.type === 'handled') handled += 1
        }
        expect(handled).toBeLessThanOrEqual(1)
        expect(state.status === 'completed' || state.status === 'starting').toBe(handled === 1)
      }),
    )
  })

  test('expires only while it waits for bytes, or to be joined', () => {
    expect(isExpired(newUpload(3, 100), 99)).toBe(false)
    expect(refuseGone(newUpload(3, 100), 100)?.code).toBe('UPLOAD_GONE')
    const part = applyUpload(received(newUpload(3, 100, 'part'), 3), { type: 'filled', etag: 'x', hasHandler: true })
    expect([part.status, isExpired(part, 100)]).toEqual(['part', true])
    const whole = applyUpload(received(newUpload(3, 100), 3), { type: 'filled', etag: 'x', hasHandler: false })
    expect([whole.status, isExpired(whole, 1e9)]).toEqual(['completed', false])
  })
})
