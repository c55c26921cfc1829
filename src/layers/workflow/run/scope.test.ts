import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Observed } from './observations.ts'
import {
  commandName,
  currentPlace,
  currentScope,
  enterScope,
  enterStep,
  leaveScope,
  readableId,
  Scope,
  stepName,
} from './scope.ts'

const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const digester = { hash, codec: { encode: (value: unknown) => new TextEncoder().encode(JSON.stringify(value)) } }
const rootOf = (text: string, isShort = false) => {
  const updates = new Observed(digester)
  const running = { time: 0, blame: () => undefined, digester, updates, seed: () => ({ text, isShort }) }
  return new Scope(running, '', null)
}

describe('a scope', () => {
  it('gives every command an id of its own, whatever its name and branch', () => {
    const name = fc.stringMatching(/^[a-z0-9~./#%]{1,8}$/)
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(2), name), { maxLength: 40 }), (commands) => {
        const root = rootOf('s')
        const scopes = [root, root.child('~all.0'), root.child('~all.1')]
        const ids = commands.map(([scope, name]) => scopes[scope]!.next(commandName(name)))
        expect(new Set(ids).size).toBe(ids.length)
      }),
    )
  })

  it('keeps names readable: escaped characters in an id are restored', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 60 }), (name) => {
        const id = rootOf('s').next(commandName(name))
        expect(readableId(id)).toBe(name)
        expect(stepName(`~loop.3/${id}#2`)).toBe(name)
      }),
    )
  })

  it('draws the same chance in every replay of a branch, and another in another branch or run', () => {
    const draw = (scope: Scope) => [scope.random(), scope.random(), scope.uuid()]
    expect(draw(rootOf('a'))).toEqual(draw(rootOf('a')))
    expect(draw(rootOf('a'))).not.toEqual(draw(rootOf('b')))
    expect(draw(rootOf('a').child('x'))).not.toEqual(draw(rootOf('a').child('y')))
    expect(rootOf('a').uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  it('passes its decisions about patches on to the branches below it, not to those above', () => {
    const root = rootOf('s')
    const below = root.child('b')
    below.decidePatch('p', true)
    expect(root.patchDecision('p')).toBeUndefined()
    root.decidePatch('q', false)
    expect(below.patchDecision('q')).toBe(false)
  })

  it('is found by the code that runs in it, and by nothing else', async () => {
    const scope = rootOf('s')
    const seen = await enterScope(scope, async () => {
      await Promise.resolve()
      return [currentScope(), leaveScope(currentScope), enterStep({ heartbeat: async () => undefined }, currentScope)]
    })
    expect(seen).toEqual([scope, null, null])
    expect(currentPlace()).toBeUndefined()
  })
})
