// Kafka during an election: a partition has no leader for a moment, or its leader is not in the list. A real broker does that
// under load and when it restarts; here a broker of our own does it on request of the test.

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { connectTo } from '../../src/adapters/kafka/kafkats.ts'
import type { KafkaPort } from '../../src/adapters/kafka/port.ts'
import { pause, until } from '../support/fixture.ts'

const topic = 'orders'
const [fetch, listOffsets, metadata, apiVersions] = [1, 2, 3, 18]
const leaderNotAvailable = 5
const kafkaStorageError = 56

describe('a Kafka source and sink', () => {
  let broker: ScriptedBroker
  let port: KafkaPort | undefined

  beforeEach(async () => {
    broker = await ScriptedBroker.start()
  })
  afterEach(async () => {
    await port?.close()
    await broker.close()
  })

  it('count a partition without a leader: keys keep their partition, and positions are not called gone', async () => {
    broker.describes = () => ({ isListed: true, partitions: [0, leaderNotAvailable, 0] })
    port = await connectTo({ brokers: broker.address })
    expect(await port.partitions(topic)).toEqual([0, 1, 2])
  })

  it('wait for a leader that is being elected, and ask who it is', async () => {
    broker.describes = (asked) => ({ isListed: true, partitions: [asked > 3 ? 0 : leaderNotAvailable] })
    port = await connectTo({ brokers: broker.address })
    expect(await port.offset(topic, 0, 'newest')).toBe(7)
  })

  it('wait for a leader that is not in the list of brokers', async () => {
    broker.describes = (asked) => ({ isListed: asked > 3, partitions: [0] })
    port = await connectTo({ brokers: broker.address })
    expect(await port.offset(topic, 0, 'newest')).toBe(7)
  })

  it('end with a code where a broker takes requests and never answers', async () => {
    const silent = await connectTo({ brokers: broker.address, awayFor: '2s', client: { requestTimeoutMs: 500 } })
    port = silent
    const asking = async () => {
      for (;;) expect(await silent.fetch(topic, [{ partition: 0, offset: 0 }], 1)).toMatchObject([{ outcome: 'later' }])
    }
    await expect(asking()).rejects.toMatchObject({ code: 'BROKER_AWAY', data: { awayMs: 2000 } })
  })

  it('report a broker that does not answer while the request is still under way', async () => {
    const silent = await connectTo({ brokers: broker.address, client: { requestTimeoutMs: 600_000 } })
    port = silent
    const asking = silent.fetch(topic, [{ partition: 0, offset: 0 }], 1).catch(() => undefined)
    expect(silent.silentSince).toBeNull()
    await until(() => silent.silentSince !== null)
    await silent.close()
    await asking
  })

  it('end with a code where a partition cannot be read for as long as brokers may be away, and wait for it before', async () => {
    for (const isMended of [false, true]) {
      const answers = { count: 0 }
      broker.fetches = () => (isMended && ++answers.count > 5 ? 0 : kafkaStorageError)
      const refused = await connectTo({ brokers: broker.address, awayFor: isMended ? '1h' : '300ms' })
      const asking = async () => {
        for (;;) {
          const [fetched] = await refused.fetch(topic, [{ partition: 0, offset: 0 }], 1)
          if (fetched?.outcome !== 'later') return fetched
          await pause(10)
        }
      }
      if (isMended) expect(await asking()).toMatchObject({ outcome: 'ok' })
      else await expect(asking()).rejects.toMatchObject({ code: 'BROKER_AWAY', data: { awayMs: 300 } })
      await refused.close()
    }
  })

  it('end with a code for an unreachable broker, and at once for an invalid address', async () => {
    port = undefined
    const { address } = broker
    await broker.close()
    await expect(connectTo({ brokers: address, awayFor: 50 })).rejects.toMatchObject({ code: 'BROKER_AWAY' })
    await expect(connectTo({ brokers: ['no address'], awayFor: '1h' })).rejects.toThrow('no address')
    await expect(connectTo({ brokers: address, awayFor: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })
})

interface Described {
  readonly isListed: boolean
  /** The error of each. */
  readonly partitions: readonly number[]
}

/**
 * Implements the part of the protocol that these tests need: one topic, one broker with the id 1. Fetches get an answer if
 * configured.
 */
class ScriptedBroker {
  describes: (asked: number) => Described = () => ({ isListed: true, partitions: [0] })
  /** The error of the first partition. */
  fetches: (() => number) | null = null
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #asked = 0

  static async start(): Promise<ScriptedBroker> {
    const broker = new ScriptedBroker()
    await new Promise<void>((resolve) => broker.#server.listen(0, '127.0.0.1', resolve))
    return broker
  }

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => undefined)
      let rest = Buffer.alloc(0)
      socket.on('data', (bytes) => {
        rest = Buffer.concat([rest, bytes])
        while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
          const end = 4 + rest.readInt32BE(0)
          const api = rest.readInt16BE(4)
          if (api !== fetch || this.fetches) {
            const answer = Buffer.concat([rest.subarray(8, 12), this.#answer(api)])
            socket.write(Buffer.concat([int32(answer.length), answer]))
          }
          rest = rest.subarray(end)
        }
      })
    })
  }

  get #port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get address(): string[] {
    return [`127.0.0.1:${this.#port}`]
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(api: number): Buffer {
    if (api === apiVersions) {
      const known = [apiVersions, 0, 0, fetch, 11, 11, metadata, 4, 4, listOffsets, 5, 5]
      return Buffer.concat([int16(0), int32(known.length / 3), ...known.map(int16)])
    }
    if (api === fetch) {
      const partition = [
        int32(0),
        int16(this.fetches!()),
        int64(0n),
        int64(0n),
        int64(0n),
        int32(0),
        int32(-1),
        int32(-1),
      ]
      return Buffer.concat([int32(0), int16(0), int32(0), int32(1), text(topic), int32(1), ...partition])
    }
    if (api === metadata) return this.#metadata(this.describes(++this.#asked))
    if (api === listOffsets) {
      const partition = [int32(0), int16(0), int64(-1n), int64(7n), int32(0)]
      return Buffer.concat([int32(0), int32(1), text(topic), int32(1), ...partition])
    }
    throw new Error(`no answer to requests of kind ${api}`)
  }

  #metadata({ isListed, partitions }: Described): Buffer {
    const self = isListed ? [int32(1), int32(1), text('127.0.0.1'), int32(this.#port), int16(-1)] : [int32(0)]
    const described = partitions.map((error, index) =>
      Buffer.concat([int16(error), int32(index), int32(error === 0 ? 1 : -1), int32(1), int32(1), int32(1), int32(1)]),
    )
    const one = [int16(0), text(topic), Buffer.from([0]), int32(described.length), ...described]
    return Buffer.concat([int32(0), ...self, int16(-1), int32(1), int32(1), ...one])
  }
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(value)
  return bytes
}

function text(value: string): Buffer {
  return Buffer.concat([int16(value.length), Buffer.from(value)])
}
