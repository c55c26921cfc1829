// A process that does a little work and ends, as scripts and commands do: one run of 200 steps in an existing store, by the
// shipped package, or as many inserts by the bare driver. Prints its processor time in ms, including Node's own start.

const [, , kind, path] = process.argv
const count = 200

if (kind === 'bare') {
  const { bareSqlite } = await import('./stores.mjs')
  const { db, insert } = await bareSqlite(path)
  for (let i = 0; i < count; i++) insert.run(1, i, 'x'.repeat(60))
  db.close()
} else {
  const { open } = await import('../../lib/index.js')
  const { workflow } = await import('../../lib/layers/workflow/index.js')
  const steps = workflow('steps', async (ctx) => {
    for (let i = 0; i < count; i++) await ctx.step('s', () => i)
  })
  const rp = await open(`sqlite:${path}`)
  await rp.run(steps).result()
  await rp.close()
}
const { user, system } = process.cpuUsage()
console.log((user + system) / 1000)
