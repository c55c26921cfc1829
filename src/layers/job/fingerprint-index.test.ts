import { expect, it } from 'vitest'
import { fingerprint, fingerprintBytes } from './fingerprint.ts'
import { FingerprintIndex, placesMax } from './fingerprint-index.ts'

const segmentKeys = 256

function filled(count: number): { places: FingerprintIndex; segments: Uint8Array[] } {
  const segments: Uint8Array[] = []
  const places = new FingerprintIndex(segments, segmentKeys, fingerprintBytes)
  for (let place = 0; place < count; place++) {
    if (place % segmentKeys === 0) segments.push(new Uint8Array(segmentKeys * fingerprintBytes))
    const bytes = Buffer.from(fingerprint(`key ${place}`), 'latin1').subarray(0, fingerprintBytes)
    segments[segments.length - 1]!.set(bytes, (place % segmentKeys) * fingerprintBytes)
    places.add(place)
  }
  return { places, segments }
}

it('finds each of many fingerprints at its place, and none that is not there', () => {
  const { places } = filled(60_000)
  for (let place = 0; place < 60_000; place++) expect(places.find(fingerprint(`key ${place}`))).toBe(place)
  for (let i = 0; i < 60_000; i++) expect(places.find(fingerprint(`other ${i}`))).toBe(-1)
})

it('distinguishes fingerprints that share their table, their home and their tag', () => {
  const segments = [new Uint8Array(segmentKeys * fingerprintBytes)]
  const places = new FingerprintIndex(segments, segmentKeys, fingerprintBytes)
  const print = (last: number) => `${'\x07'.repeat(fingerprintBytes - 1)}${String.fromCharCode(last)}`
  for (let place = 0; place < 40; place++) {
    segments[0]!.set(Buffer.from(print(place), 'latin1'), place * fingerprintBytes)
    places.add(place)
  }
  for (let place = 0; place < 40; place++) expect(places.find(print(place))).toBe(place)
  expect(places.find(print(40))).toBe(-1)
})

it('refuses a place beyond its bound, and takes the last below it', () => {
  const segments: Uint8Array[] = []
  const last = placesMax - 1
  segments[Math.floor(last / segmentKeys)] = new Uint8Array(segmentKeys * fingerprintBytes).fill(255)
  const places = new FingerprintIndex(segments, segmentKeys, fingerprintBytes)
  places.add(last)
  expect(places.find('\xff'.repeat(fingerprintBytes))).toBe(last)
  expect(() => places.add(placesMax)).toThrow(/more shards/)
})
