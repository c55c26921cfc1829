// DBOS Transact on PostgreSQL.

import { DBOS } from '@dbos-inc/dbos-sdk'

export async function openPeer(url) {
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, logLevel: 'error' })
  const three = DBOS.registerWorkflow(
    async (n) => {
      const a = await DBOS.runStep(async () => n + 1, { name: 'a' })
      const b = await DBOS.runStep(async () => a + 1, { name: 'b' })
      return await DBOS.runStep(async () => b + 1, { name: 'c' })
    },
    { name: 'three' },
  )
  const steps = DBOS.registerWorkflow(
    async (count) => {
      for (let i = 0; i < count; i++) await DBOS.runStep(async () => i, { name: 's' })
      return count
    },
    { name: 'steps' },
  )
  await DBOS.launch()
  return {
    async runsThreeSteps(count) {
      await Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const result = await (await DBOS.startWorkflow(three)(i)).getResult()
          if (result !== i + 3) throw new Error(`run ${i} gave ${result}`)
        }),
      )
    },
    async stepsSequential(count) {
      await (await DBOS.startWorkflow(steps)(count)).getResult()
    },
    close: () => DBOS.shutdown(),
  }
}
