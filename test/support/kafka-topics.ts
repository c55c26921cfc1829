// Topics for tests on a real Kafka broker.

import { KafkaClient } from '@kafkats/client'
import { until } from './until.ts'

/** With one partition, and there when it returns. */
export async function createTopic(brokers: string[], name: string): Promise<void> {
  const client = new KafkaClient({ brokers, clientId: 'test', logLevel: 'silent' as never })
  await client.connect()
  try {
    await client.createTopics([{ name, numPartitions: 1, replicationFactor: 1 }])
    await until(async () => (await client.getMetadata([name])).topics.get(name)?.partitions.size === 1)
  } finally {
    await client.disconnect()
  }
}
