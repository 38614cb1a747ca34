import core.ids
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import encrypted_fields.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("tenants", "0001_initial"),
        ("tenants", "0002_fewer_indexes"),
        ("tenants", "0003_money"),
        ("tenants", "0004_purses_work"),
        ("tenants", "0005_vault"),
        ("tenants", "0006_webhooks_inbox"),
        ("tenants", "0007_sandbox_minutes"),
        ("tenants", "0008_every_purse_pays_for_minutes"),
        ("tenants", "0009_webhooks_go_while_events_come"),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Workspace',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('slug', models.SlugField(max_length=90, unique=True)),
                ('mail_allowed', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=320), blank=True, db_default=[], default=list, size=None)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('email', models.EmailField(max_length=254, unique=True)),
                ('name', models.CharField(blank=True, max_length=80)),
                ('is_active', models.BooleanField(default=True)),
                ('is_staff', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'ordering': ['email'],
            },
        ),
        migrations.CreateModel(
            name='InboxItem',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('message', 'Message'), ('notice', 'Notice'), ('approval', 'Approval'), ('warning', 'Warning')], default='notice', max_length=20)),
                ('title', models.CharField(max_length=200)),
                ('body', models.TextField(blank=True)),
                ('link', models.CharField(blank=True, max_length=500)),
                ('session_id', models.UUIDField(blank=True, null=True)),
                ('agent_id', models.UUIDField(blank=True, null=True)),
                ('dedupe_key', models.CharField(editable=False, max_length=120, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'inbox_items',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='InboxRead',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('read_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reads', to='tenants.inboxitem')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'inbox_reads',
            },
        ),
        migrations.CreateModel(
            name='ModelCall',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('agent_id', models.UUIDField(null=True)),
                ('session_id', models.UUIDField(null=True)),
                ('run_id', models.UUIDField(null=True)),
                ('key_id', models.UUIDField(null=True)),
                ('epoch', models.BigIntegerField(null=True)),
                ('provider', models.CharField(max_length=40)),
                ('model', models.CharField(max_length=200)),
                ('purpose', models.CharField(choices=[('answer', 'Answer'), ('summary', 'Summary'), ('flush', 'Flush'), ('grade', 'Grade')], default='answer', max_length=7)),
                ('state', models.CharField(choices=[('reserved', 'Reserved'), ('settled', 'Settled'), ('estimated', 'Estimated'), ('failed', 'Failed')], db_default='reserved', default='reserved', max_length=9)),
                ('reserved', models.DecimalField(decimal_places=8, max_digits=18)),
                ('cost', models.DecimalField(db_default=0, decimal_places=8, default=0, max_digits=18)),
                ('input_tokens', models.BigIntegerField(db_default=0, default=0)),
                ('output_tokens', models.BigIntegerField(db_default=0, default=0)),
                ('cached_tokens', models.BigIntegerField(db_default=0, default=0)),
                ('purses', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('lost_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'model_calls',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Pulse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('host', models.CharField(max_length=80)),
                ('pid', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'db_table': 'process_pulses',
                'constraints': [models.UniqueConstraint(fields=('kind', 'host', 'pid'), name='pulse_is_one_per_process')],
            },
        ),
        migrations.CreateModel(
            name='SignInAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('email_digest', models.CharField(max_length=64)),
                ('client', models.CharField(max_length=64)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(fields=['email_digest', 'at'], name='attempt_by_email'), models.Index(fields=['client', 'at'], name='attempt_by_client')],
            },
        ),
        migrations.CreateModel(
            name='SignInLink',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=2000)),
                ('events', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), size=None)),
                ('secret', encrypted_fields.fields.EncryptedTextField(editable=False)),
                ('old_secret', encrypted_fields.fields.EncryptedTextField(editable=False, null=True)),
                ('old_secret_until', models.DateTimeField(editable=False, null=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('active', models.BooleanField(default=True)),
                ('disabled_reason', models.CharField(blank=True, editable=False, max_length=300)),
                ('failures', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
                ('quiet_until', models.DateTimeField(editable=False, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'webhooks',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('type', models.CharField(max_length=80)),
                ('body', models.JSONField()),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('failed', 'Failed')], db_default='pending', default='pending', max_length=9)),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('attempted_at', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('duration_ms', models.PositiveIntegerField(null=True)),
                ('response_status', models.PositiveSmallIntegerField(null=True)),
                ('response_snippet', models.CharField(blank=True, db_default='', default='', max_length=1000)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('webhook', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='tenants.webhook')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'webhook_deliveries',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='SentMail',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('recipient', models.EmailField(max_length=320)),
                ('subject', models.CharField(max_length=200)),
                ('session_id', models.UUIDField(null=True)),
                ('agent_id', models.UUIDField(null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'sent_mails',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Secret',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64)),
                ('value', encrypted_fields.fields.EncryptedTextField()),
                ('hosts', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=253), blank=True, default=list, size=None)),
                ('set_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'vault_secrets',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SandboxMinute',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('sandbox', models.CharField(max_length=100)),
                ('minute', models.DateTimeField()),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'sandbox_minutes',
                'ordering': ['-minute'],
            },
        ),
        migrations.CreateModel(
            name='Purse',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('workspace', 'Workspace'), ('agent', 'Agent'), ('session', 'Session'), ('member', 'Member'), ('key', 'Key')], max_length=9)),
                ('owner_id', models.UUIDField()),
                ('period', models.CharField(choices=[('ever', 'Ever'), ('day', 'Day'), ('month', 'Month')], db_default='ever', default='ever', max_length=5)),
                ('since', models.DateField(editable=False, null=True)),
                ('ceiling', models.DecimalField(db_default=0, decimal_places=8, default=0, max_digits=18)),
                ('spent', models.DecimalField(db_default=0, decimal_places=8, default=0, editable=False, max_digits=18)),
                ('reserved', models.DecimalField(db_default=0, decimal_places=8, default=0, editable=False, max_digits=18)),
                ('debt', models.DecimalField(db_default=0, decimal_places=8, default=0, editable=False, max_digits=18)),
                ('low_since', models.DateTimeField(editable=False, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'purses',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Price',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=40)),
                ('model', models.CharField(max_length=200)),
                ('input_price', models.DecimalField(decimal_places=6, max_digits=12)),
                ('output_price', models.DecimalField(decimal_places=6, max_digits=12)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'model_prices',
                'ordering': ['provider', 'model'],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('admin', 'Admin'), ('builder', 'Builder'), ('viewer', 'Viewer')], default='builder', max_length=8)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('email', models.EmailField(max_length=254)),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('admin', 'Admin'), ('builder', 'Builder'), ('viewer', 'Viewer')], default='builder', max_length=8)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('expires_at', models.DateTimeField()),
                ('accepted_at', models.DateTimeField(editable=False, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='IdempotentAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key_digest', models.CharField(max_length=64)),
                ('body_digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('content_type', models.CharField(default='application/json', max_length=80)),
                ('body', models.BinaryField(default=bytes)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='CreditEntry',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('grant', 'Grant'), ('adjustment', 'Adjustment'), ('charge', 'Charge'), ('sandbox', 'Sandbox')], max_length=10)),
                ('amount', models.DecimalField(decimal_places=8, max_digits=18)),
                ('note', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('call', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='entry', to='tenants.modelcall')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'credit_ledger',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('prefix', models.CharField(editable=False, max_length=16)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('scope', models.CharField(choices=[('read', 'Read'), ('run', 'Run'), ('admin', 'Admin')], default='run', max_length=5)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('email'), name='user_email_is_unique_in_any_case'),
        ),
        migrations.AddConstraint(
            model_name='inboxread',
            constraint=models.UniqueConstraint(fields=('item', 'user'), name='inbox_item_is_read_once'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['webhook', 'next_attempt_at'], name='webhook_delivery_by_due_time'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(fields=['webhook', '-created_at'], name='webhook_delivery_log'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(fields=['created_at'], name='webhook_delivery_by_age'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'pending'), _negated=True), ('next_attempt_at__isnull', False), _connector='OR'), name='webhook_delivery_pending_has_a_time'),
        ),
        migrations.AddIndex(
            model_name='webhook',
            index=models.Index(condition=models.Q(('active', True)), fields=['workspace'], name='webhook_active_in_workspace'),
        ),
        migrations.AddIndex(
            model_name='sentmail',
            index=models.Index(fields=['workspace', 'created_at'], name='sent_mail_by_time'),
        ),
        migrations.AddConstraint(
            model_name='secret',
            constraint=models.UniqueConstraint(fields=('workspace', 'name'), name='secret_name_is_unique_in_its_workspace'),
        ),
        migrations.AddIndex(
            model_name='sandboxminute',
            index=models.Index(fields=['minute'], name='sandbox_minute_by_time'),
        ),
        migrations.AddConstraint(
            model_name='sandboxminute',
            constraint=models.UniqueConstraint(fields=('sandbox', 'minute'), name='sandbox_minute_is_charged_once'),
        ),
        migrations.AddConstraint(
            model_name='purse',
            constraint=models.UniqueConstraint(fields=('workspace', 'kind', 'owner_id'), name='purse_is_the_only_one_of_its_owner'),
        ),
        migrations.AddConstraint(
            model_name='purse',
            constraint=models.CheckConstraint(condition=models.Q(('reserved__gte', 0)), name='purse_reserves_no_less_than_nothing'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.UniqueConstraint(fields=('workspace', 'provider', 'model'), name='price_is_said_once_per_model'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.CheckConstraint(condition=models.Q(('input_price__gte', 0), ('output_price__gte', 0)), name='price_is_not_negative'),
        ),
        migrations.AddIndex(
            model_name='modelcall',
            index=models.Index(fields=['workspace', '-created_at'], name='call_by_time'),
        ),
        migrations.AddIndex(
            model_name='modelcall',
            index=models.Index(fields=['session_id', '-created_at'], name='call_by_session'),
        ),
        migrations.AddIndex(
            model_name='modelcall',
            index=models.Index(condition=models.Q(('state', 'reserved')), fields=['session_id'], name='call_open'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('workspace', 'user'), name='membership_is_one_per_person'),
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.UniqueConstraint(condition=models.Q(('accepted_at', None)), fields=('workspace', 'email'), name='invitation_is_open_once_per_address'),
        ),
        migrations.AddIndex(
            model_name='inboxitem',
            index=models.Index(fields=['workspace', '-created_at'], name='inbox_newest_first'),
        ),
        migrations.AddConstraint(
            model_name='inboxitem',
            constraint=models.UniqueConstraint(fields=('workspace', 'dedupe_key'), name='inbox_dedupe_key_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='idempotentanswer',
            constraint=models.UniqueConstraint(fields=('workspace', 'key_digest'), name='answer_is_one_per_key'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(fields=['workspace', '-created_at'], name='credit_by_time'),
        ),
        migrations.RunSQL(
            [
                "ALTER TABLE purses SET (fillfactor = 50)",
                "ALTER TABLE model_calls SET (fillfactor = 80)",
            ],
            migrations.RunSQL.noop,
        ),
    ]
