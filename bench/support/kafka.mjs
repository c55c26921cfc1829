// A Kafka broker for a bench, from the jars that the tests keep (`npx vitest run test/pipeline/kafka.test.ts` downloads them),
// and the client's own consume-produce loop, the baseline of exactly once.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KafkaClient } from '@kafkats/client'
import { connectTo } from '../../dist/adapters/kafka/kafkats.js'

const home = join(tmpdir(), 'reprise-parts/kafka-4.3.1')

/** Null: no broker can be started here. `stop` ends it and removes its data. */
export async function startBroker() {
  if (!existsSync(join(home, 'complete')) || spawnSync('java', ['-version']).status !== 0) return null
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-kafka-'))
  const [port, controller] = [await freePort(), await freePort()]
  const file = join(folder, 'server.properties')
  const lines = [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.voters=1@127.0.0.1:${controller}`,
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names=CONTROLLER',
    'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    `log.dirs=${join(folder, 'data')}`,
    'log.retention.ms=-1',
    ...['offsets.topic', 'transaction.state.log'].map((name) => `${name}.num.partitions=1`),
    ...['offsets.topic', 'transaction.state.log', 'share.coordinator.state.topic'].map(
      (name) => `${name}.replication.factor=1`,
    ),
    ...['transaction.state.log', 'share.coordinator.state.topic'].map((name) => `${name}.min.isr=1`),
    'broker.session.timeout.ms=60000',
  ]
  writeFileSync(file, lines.join('\n'))
  const java = ['-Xmx512m', '-Dorg.slf4j.simpleLogger.defaultLogLevel=error', '-cp', `${join(home, 'libs')}/*`]
  const id = 'MkU3OEVBNTcwNTJENDM2Qg'
  const formatted = spawnSync('java', [...java, 'kafka.tools.StorageTool', 'format', '-t', id, '-c', file])
  if (formatted.status !== 0) throw new Error(String(formatted.stderr))
  const child = spawn('java', [...java, 'kafka.Kafka', file], { stdio: 'ignore' })
  const brokers = [`127.0.0.1:${port}`]
  const client = await connected(brokers)
  const stop = async () => {
    await client.disconnect()
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('exit', resolve))
    rmSync(folder, { recursive: true, force: true })
  }
  return { brokers, client, stop }
}

async function connected(brokers) {
  for (let tries = 0; ; tries++) {
    const client = new KafkaClient({ brokers, clientId: 'bench', logLevel: 'silent' })
    try {
      await client.connect()
      return client
    } catch (error) {
      if (tries === 120) throw error
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

export async function makeTopic(client, name, partitions) {
  await client.createTopics([{ name, numPartitions: partitions, replicationFactor: 1 }])
  while ((await client.getMetadata([name])).topics.get(name)?.partitions.size !== partitions) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Records of these keys, spread over the partitions, each committed as a whole. */
export async function fill(brokers, topic, partitions, records, keys) {
  const port = await connectTo({ brokers })
  for (let partition = 0; partition < partitions; partition++) {
    const transaction = await port.begin(`fill-${topic}-${partition}`, 60_000)
    await port.addPartitions(transaction, topic, [partition])
    const own = records / partitions
    for (let sequence = 0; sequence < own; sequence += 5000) {
      const some = Array.from({ length: Math.min(5000, own - sequence) }, (_, i) => {
        const n = (sequence + i) * partitions + partition
        return { key: Buffer.from(`key-${n % keys}`), value: Buffer.from(`{"n":${n}}`), headers: {}, time: Date.now() }
      })
      await port.produce(transaction, topic, [{ partition, records: some, sequence }])
    }
    await port.end(transaction, 'commit')
  }
  await port.close()
}

/**
 * A program without Reprise: it reads batches, counts in memory and sends the counts of each batch; nothing is atomic.
 */
export async function bareLoop(client, { from, to, partitions, records }) {
  const consumer = client.consumer({ groupId: `bare-${to}`, autoOffsetReset: 'earliest' })
  const producer = client.producer({ lingerMs: 5, maxBatchBytes: 1024 * 1024 })
  const counts = new Map()
  let seen = 0
  const assignment = Array.from({ length: partitions }, (_, partition) => ({ topic: from, partition, offset: 0n }))
  const cpu = process.cpuUsage()
  await consumer.runBatch(
    from,
    async (messages) => {
      const out = messages.map(({ key, value }) => {
        const text = key.toString()
        JSON.parse(value.toString())
        const count = (counts.get(text) ?? 0) + 1
        counts.set(text, count)
        return { key: text, value: Buffer.from(String(count)) }
      })
      await producer.send(to, out)
      seen += messages.length
      if (seen >= records) consumer.stop()
    },
    { assignment, commitOffsets: false, partitionConcurrency: partitions },
  )
  await producer.flush()
  const used = process.cpuUsage(cpu)
  await producer.disconnect()
  return used
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}
