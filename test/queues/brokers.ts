// The brokers that queue tests run on: how each is started, and how a test sends to a queue of its own and counts the rest.

import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { createClient } from '@redis/client'
import { connect as connectAmqp } from 'amqplib'
import { amqpBroker } from '../../src/adapters/amqp/index.ts'
import { natsBroker } from '../../src/adapters/nats/index.ts'
import { redisBroker } from '../../src/adapters/redis/index.ts'
import { sqsBroker } from '../../src/adapters/sqs/index.ts'
import type { ExternalQueue } from '../../src/layers/job/index.ts'
import { natsBinary, type RunningPart, startNats } from '../support/parts.ts'
import {
  elasticMqJars,
  hasRabbitMq,
  hasRedis,
  startElasticMq,
  startRabbitMq,
  startRedis,
} from '../support/queue-parts.ts'

export interface BrokerQueue {
  // biome-ignore lint/suspicious/noExplicitAny: the messages of all brokers have a value.
  readonly queue: ExternalQueue<any>
  /** Resolves when the broker has the messages durably. */
  send(texts: readonly string[]): Promise<void>
  size(): Promise<number>
}

export interface Broker {
  readonly name: string
  /** Null: it cannot be had here. */
  start: ((again?: { readonly port: number; readonly folder: string }) => Promise<RunningPart>) | null
  queue(port: number, name: string, holdMs: number): Promise<BrokerQueue>
}

const keys = { accessKeyId: 'test', secretAccessKey: 'test' }

async function sqs(port: number, action: string, input: object): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${action}` },
    body: JSON.stringify(input),
  })
  if (!response.ok) throw new Error(`${action}: ${response.status} ${await response.text()}`)
  return (await response.json().catch(() => ({}))) as Record<string, unknown>
}

const jars = elasticMqJars()
const elasticMq: Broker = {
  name: 'sqs',
  start: jars ? (again) => startElasticMq(jars, again) : null,
  async queue(port, name, holdMs) {
    await sqs(port, 'CreateQueue', { QueueName: name })
    const url = `http://127.0.0.1:${port}/000000000000/${name}`
    return {
      queue: sqsBroker({ url, credentials: keys, holdFor: holdMs }),
      async send(texts) {
        for (let at = 0; at < texts.length; at += 10) {
          const Entries = texts.slice(at, at + 10).map((text, i) => ({ Id: String(i), MessageBody: text }))
          await sqs(port, 'SendMessageBatch', { QueueUrl: url, Entries })
        }
      },
      async size() {
        const answer = await sqs(port, 'GetQueueAttributes', { QueueUrl: url, AttributeNames: ['All'] })
        const counts = answer.Attributes as Record<string, string>
        return Number(counts.ApproximateNumberOfMessages) + Number(counts.ApproximateNumberOfMessagesNotVisible)
      },
    }
  },
}

const rabbitMq: Broker = {
  name: 'amqp',
  start: hasRabbitMq() ? startRabbitMq : null,
  async queue(port, name) {
    const url = `amqp://guest:guest@127.0.0.1:${port}`
    const using = async <R>(work: (channel: import('amqplib').ConfirmChannel) => Promise<R>): Promise<R> => {
      const model = await connectAmqp(url)
      try {
        return await work(await model.createConfirmChannel())
      } finally {
        await model.close()
      }
    }
    await using((channel) => channel.assertQueue(name, { durable: true }))
    return {
      queue: amqpBroker({ url, queue: name }),
      async send(texts) {
        await using(async (channel) => {
          for (const text of texts) {
            channel.sendToQueue(name, Buffer.from(text), { persistent: true, messageId: `id-${text}` })
          }
          await channel.waitForConfirms()
        })
      },
      // Messages that a connection holds are not counted: tests ask when none does.
      size: async () => await using(async (channel) => (await channel.checkQueue(name)).messageCount),
    }
  },
}

const redis: Broker = {
  name: 'redis',
  start: hasRedis() ? startRedis : null,
  async queue(port, name, holdMs) {
    const url = `redis://127.0.0.1:${port}`
    const using = async <R>(
      work: (send: (command: readonly string[]) => Promise<unknown>) => Promise<R>,
    ): Promise<R> => {
      const client = createClient({ url, RESP: 2 })
      client.on('error', () => undefined)
      await client.connect()
      try {
        return await work((command) => client.sendCommand([...command]))
      } finally {
        client.destroy()
      }
    }
    return {
      queue: redisBroker({ url, stream: name, group: 'test', holdFor: holdMs, remove: true }),
      async send(texts) {
        await using(async (send) => {
          for (const text of texts) await send(['XADD', name, '*', 'value', text])
        })
      },
      size: async () => Number(await using((send) => send(['XLEN', name]))),
    }
  },
}

const binary = natsBinary()
const nats: Broker = {
  name: 'nats',
  start: binary ? (again) => startNats(binary, again) : null,
  async queue(port, name, holdMs) {
    const servers = `127.0.0.1:${port}`
    const own = await connectNats({ servers })
    const manager = await jetstreamManager(own)
    await manager.streams.add({ name, subjects: [name] })
    const consumer = {
      durable_name: 'test',
      ack_policy: AckPolicy.Explicit,
      ack_wait: holdMs * 1e6,
      max_ack_pending: -1,
    }
    await manager.consumers.add(name, consumer)
    await own.close()
    return {
      queue: natsBroker({ servers, stream: name, consumer: 'test' }),
      async send(texts) {
        const connection = await connectNats({ servers })
        for (const text of texts) await jetstream(connection).publish(name, text)
        await connection.close()
      },
      async size() {
        const connection = await connectNats({ servers })
        try {
          const { num_pending, num_ack_pending } = await (await jetstreamManager(connection)).consumers.info(
            name,
            'test',
          )
          return num_pending + num_ack_pending
        } finally {
          await connection.close()
        }
      },
    }
  },
}

export const brokers: readonly Broker[] = [elasticMq, rabbitMq, redis, nats]

/** Without REPRISE_SWEEP=all, only brokers that start at once: the others take tens of seconds. */
export function isChosen({ name, start }: Broker, quick: readonly string[]): boolean {
  if (start === null) return false
  if (process.env.REPRISE_SWEEP === 'all' || quick.includes(name)) return true
  console.warn(`the queue of ${name} is left out: REPRISE_SWEEP=all runs it`)
  return false
}
