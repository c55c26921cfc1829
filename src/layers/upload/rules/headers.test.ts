import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isReprise } from '../../../core/errors.ts'
import { byteCount, checksumOf, concatOf, idOfUrl, metadataBytesMax, metadataOf, partsMax } from './headers.ts'

describe('headers of tus', () => {
  test('metadata come back as they were sent', () => {
    const key = fc
      .string({ minLength: 1, maxLength: 20 })
      .map((text) => `k${text.replaceAll(/[^\x21-\x2b\x2d-\x7e]/g, '')}`)
    fc.assert(
      fc.property(fc.dictionary(key, fc.string({ maxLength: 40, unit: 'grapheme' }), { maxKeys: 8 }), (given) => {
        const header = Object.entries(given).map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
        const read = metadataOf(header.join(','))
        expect(Object.entries(read).sort()).toEqual(Object.entries(given).sort())
      }),
    )
  })

  test('a name of an object of ours is a name like any other', () => {
    const read = metadataOf('__proto__ aGk=,constructor aGk=')
    expect(Object.keys(read)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
  })

  test('malformed or excessive values are refused', () => {
    const refused = (read: () => unknown, code: 'INVALID_ARGUMENT' | 'LIMIT_EXCEEDED') => {
      try {
        read()
      } catch (error) {
        expect(isReprise(error, code)).toBe(true)
        return
      }
      expect.fail('it was accepted')
    }
    for (const header of ['a b c', 'a !!', 'é aGk=', 'a aGk=,a aGk=', ','])
      refused(() => metadataOf(header), 'INVALID_ARGUMENT')
    refused(() => metadataOf(`a ${'A'.repeat(metadataBytesMax)}`), 'LIMIT_EXCEEDED')
    refused(() => metadataOf(Array.from({ length: 65 }, (_, i) => `k${i}`).join(',')), 'LIMIT_EXCEEDED')
    for (const header of ['-1', '1.5', '1e3', '', '0x1', '99999999999999999'])
      refused(() => byteCount('x', header), 'INVALID_ARGUMENT')
    for (const header of ['crc32 aGk=', 'sha1', 'sha1 ???', 'sha1 aGk= x'])
      refused(() => checksumOf(header), 'INVALID_ARGUMENT')
    for (const header of ['partial;x', 'final', 'final;']) refused(() => concatOf(header), 'INVALID_ARGUMENT')
    refused(() => concatOf(`final;${Array.from({ length: partsMax + 1 }, () => '/a').join(' ')}`), 'LIMIT_EXCEEDED')
  })

  test('no text throws anything but a refusal', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        for (const read of [metadataOf, checksumOf, concatOf, (each: string) => byteCount('x', each)]) {
          try {
            read(text)
          } catch (error) {
            expect(isReprise(error, 'INVALID_ARGUMENT', 'LIMIT_EXCEEDED')).toBe(true)
          }
        }
        const id = idOfUrl(text)
        expect(id === null || /^[0-9a-f]{40}$/.test(id)).toBe(true)
      }),
    )
  })
})
