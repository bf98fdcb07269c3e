{{- /* Made by `make generate` from config/. */ -}}
{{- define "berth.manager" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/name: berth
  name: berth-manager
  namespace: {{ .Release.Namespace | quote }}
spec:
  replicas: 2
  selector:
    matchLabels:
      app.kubernetes.io/name: berth
  template:
    metadata:
      annotations:
        kubectl.kubernetes.io/default-container: manager
      labels:
        app.kubernetes.io/name: berth
    spec:
      automountServiceAccountToken: true
      containers:
      - args:
        - --leader-elect=true
        - --health-probe-bind-address=:8081
        - --metrics-bind-address=:8443
        - --crash-output-dir=/crash
        image: berth:latest
        imagePullPolicy: IfNotPresent
        livenessProbe:
          failureThreshold: 3
          httpGet:
            path: /livez
            port: probes
          initialDelaySeconds: 15
          periodSeconds: 20
          timeoutSeconds: 5
        name: manager
        ports:
        - containerPort: 8081
          name: probes
        - containerPort: 8443
          name: metrics
        readinessProbe:
          httpGet:
            path: /readyz
            port: probes
          periodSeconds: 5
          timeoutSeconds: 5
        resources:
          limits:
            memory: 2Gi
          requests:
            cpu: 100m
            memory: 512Mi
        securityContext:
          allowPrivilegeEscalation: false
          capabilities:
            drop:
            - ALL
          readOnlyRootFilesystem: true
        volumeMounts:
        - mountPath: /crash
          name: crash
      nodeSelector:
        kubernetes.io/os: linux
      schedulerName: default-scheduler
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile:
          type: RuntimeDefault
      serviceAccountName: berth-manager
      terminationGracePeriodSeconds: 45
      topologySpreadConstraints:
      - labelSelector:
          matchLabels:
            app.kubernetes.io/name: berth
        maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
      - labelSelector:
          matchLabels:
            app.kubernetes.io/name: berth
        maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
      volumes:
      - emptyDir:
          sizeLimit: 64Mi
        name: crash
{{- end }}

{{- define "berth.image" -}}
{{ .Values.image.repository }}
{{- with .Values.image.tag }}:{{ . }}{{ end }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
