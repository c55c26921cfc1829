import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { assert, unreachable } from './assert.ts'
import { errorCodes, isReprise, isSignal, isSignalCode, RepriseError, SignalError } from './errors.ts'

test('an error carries its code, data, cause, hint and remedy, and its message names the code', () => {
  const cause = new Error('socket closed')
  const error = new RepriseError('STORE_UNREACHABLE', 'no answer', { host: 'db' }, cause)
  expect(error).toBeInstanceOf(Error)
  expect(error).toMatchObject({
    name: 'RepriseError',
    code: 'STORE_UNREACHABLE',
    remedy: 'retry',
    data: { host: 'db' },
    cause,
  })
  expect(error.message).toBe('no answer [STORE_UNREACHABLE]')
  expect(error.hint.length).toBeGreaterThan(10)
})

test('without a cause there is none, not an undefined one', () => {
  const error = new RepriseError('CLOSED', 'the engine was closed')
  expect('cause' in error).toBe(false)
  expect(error.data).toEqual({})
})

test('isReprise recognises our errors by code, and rejects others', () => {
  const fenced = new RepriseError('FENCED', 'moved on')
  expect(isReprise(fenced)).toBe(true)
  expect(isReprise(fenced, 'CONFLICT', 'FENCED')).toBe(true)
  expect(isReprise(fenced, 'CONFLICT')).toBe(false)
  for (const other of [new Error('FENCED'), { code: 'FENCED' }, null, undefined, 'FENCED'])
    expect(isReprise(other, 'FENCED')).toBe(false)
})

test('a signal is recognised inside, and shows nothing but its public code outside', () => {
  const swept = new SignalError('SWEPT', 'two chunks were collected', { missing: 2 })
  expect(isSignal(swept, 'BASE_GONE', 'SWEPT')).toBe(true)
  expect(isSignal(swept, 'MAIL_WAITING')).toBe(false)
  expect(isSignal(new RepriseError('CONTENDED', 'busy'), 'SWEPT')).toBe(false)
  expect(isReprise(swept, 'CONTENDED')).toBe(true)
  expect(errorCodes().filter(isSignalCode)).toEqual([])
  const visible = `${inspect(swept)} ${JSON.stringify(swept)} ${swept.hint} ${swept.docs} ${swept.stack}`
  expect(visible).not.toMatch(/SWEPT|BASE_GONE|MAIL_WAITING/)
})

test('a failed assertion is our bug and names the assumption', () => {
  assert(true, 'never seen')
  for (const falsy of [false, 0, '', null, undefined]) {
    expect(() => assert(falsy, 'history has a gap')).toThrow(/history has a gap \[BUG\]/)
  }
  expect(() => unreachable('sideways' as never, 'unknown direction')).toThrow(/unknown direction: sideways \[BUG\]/)
})

test('an error of another copy of the package is known, and is no error of a class below it', async () => {
  const path = '../../dist/core/errors.js?copy'
  const other = (await import(path)) as typeof import('./errors.ts')
  expect(other.RepriseError).not.toBe(RepriseError)
  const error: unknown = new other.RepriseError('FENCED', 'x')
  expect(error).toBeInstanceOf(RepriseError)
  expect(isReprise(error, 'FENCED')).toBe(true)
  expect(isReprise(error, 'CONFLICT')).toBe(false)
  class Narrower extends RepriseError {}
  expect(error).not.toBeInstanceOf(Narrower)
  expect(new Narrower('FENCED', 'x')).toBeInstanceOf(Narrower)
  expect(new Narrower('FENCED', 'x')).toBeInstanceOf(RepriseError)
  expect(new Error('x')).not.toBeInstanceOf(RepriseError)
  expect(null).not.toBeInstanceOf(RepriseError)
})
