// Examples of `reprise/kubernetes`. They need a cluster, and are compiled: test/resource/kubernetes.test.ts runs the same
// against our own server, and against a real kube-apiserver where there is one.

import { kubernetes } from 'reprise/kubernetes'
import { controller, resource } from 'reprise/resources'
import { example } from './example.ts'

interface Site {
  readonly replicas: number
}

interface SiteStatus {
  readonly ready: number
}

export default [
  example(
    ['kubernetes'],
    async (rp) => {
      // In a pod: kubernetes(). By hand: kubernetes({ server, token, ca }).
      const from = kubernetes({ kubeconfig: 'kubeconfig.yaml', context: 'staging' })
      const sites = resource<Site, SiteStatus>('sites', { api: { group: 'shop.example.com' }, from })
      const scaler = controller('scaler', {
        watch: [sites],
        async reconcile({ object, report }) {
          if (object) await report({ status: { ready: object.spec.replicas } })
        },
      })
      const working = await rp.open(scaler)
      await working.settled()
    },
    'compiled',
  ),
]
